"""A client process that keeps requests in flight and says how many were answered.

Run by serving_overhead.py: python -m benchmarks.serving_load ADDRESS IN_FLIGHT SECONDS
with the texts on stdin, one a line.
"""

import asyncio
import itertools
import json
import sys
import time

import grpc

from heedful.v1 import classifier_pb2 as pb

WARM_UP_SECONDS = 0.5


async def load(address: str, in_flight: int, seconds: float, texts: list[str]) -> dict[str, float]:
    """Keeps in_flight requests of one text each in the server; answers/s and median latency."""
    requests = itertools.cycle(
        pb.ClassifyRequest(inputs=[pb.Input(text=text)]).SerializeToString() for text in texts
    )
    latencies: list[float] = []
    answers = itertools.count()
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/heedful.v1.Classifier/Classify")
        begin = time.perf_counter() + WARM_UP_SECONDS
        end = begin + seconds

        async def worker() -> None:
            while (start := time.perf_counter()) < end:
                await call(next(requests), timeout=60)
                next(answers)
                if start >= begin:
                    latencies.append(time.perf_counter() - start)

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        elapsed = time.perf_counter() - begin
    latencies.sort()
    return {
        "per_second": len(latencies) / elapsed,
        "p50_ms": latencies[len(latencies) // 2] * 1e3,
        "answers": next(answers),  # those of the warm-up included
    }


if __name__ == "__main__":
    _, target, flying, duration = sys.argv
    lines = [line.rstrip("\n") for line in sys.stdin]
    print(json.dumps(asyncio.run(load(target, int(flying), float(duration), lines))))
