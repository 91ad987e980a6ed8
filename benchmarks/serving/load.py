"""A client process: keeps requests in flight, or sends them at a rate, and says what came back.

Run by servers.py: python -m benchmarks.serving.load LOAD
where LOAD is JSON of one of the two classes, with the texts on stdin, one a line.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from heedful.v1 import classifier_pb2 as pb

CLASSIFY = "/heedful.v1.Classifier/Classify"
WARM_UP_SECONDS = 1.0
BACK_OFF_SECONDS = 0.1
# Attention of 512 tokens is more than gRPC takes by default.
OPTIONS = [("grpc.max_receive_message_length", -1)]


@dataclass(kw_only=True)
class Answers:
    """Seconds that answers, refusals and late ones took, of those that ended between two times."""

    begin: float
    end: float

    in_time: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    late: int = 0
    all: int = 0

    def figures(self, seconds: float, texts: int = 1) -> dict[str, float]:
        found = {
            "per_second": len(self.in_time) * texts / seconds,
            "answers": float(self.all * texts),
            "refused_per_second": len(self.refused) / seconds,
            "late_per_second": self.late / seconds,
        }
        for name, values in (("", self.in_time), ("refusal_", self.refused)):
            for share in (50, 95, 99):
                value = float(np.percentile(values, share)) if values else 0.0
                found[f"{name}p{share}_ms"] = 1e3 * value
        return found


@dataclass(frozen=True, kw_only=True)
class Closed:
    """So many callers, each asking again when it is answered; refused, a little later.

    A share of the requests asks for the attention of one layer as uint8.
    """

    address: str
    seconds: float
    in_flight: int
    texts: int = 1
    deadline: float = 60.0
    attention: float = 0.0
    layer: int = 0

    async def run(self, lines: list[str]) -> dict[str, float]:
        plain = itertools.cycle(messages(lines, self.texts))
        options = pb.AttentionOptions(
            layers=[self.layer], encoding=pb.ATTENTION_ENCODING_UINT8_ROW_MAX
        )
        curious = itertools.cycle(messages(lines, self.texts, options))
        chance = random.Random(0)  # noqa: S311 - reproducible, not secret
        async with grpc.aio.insecure_channel(self.address, options=OPTIONS) as channel:
            call = channel.unary_unary(CLASSIFY)
            begin = time.perf_counter() + WARM_UP_SECONDS
            end = begin + self.seconds
            answers, maps = Answers(begin=begin, end=end), Answers(begin=begin, end=end)

            async def caller() -> None:
                while time.perf_counter() < end:
                    requests, kind = plain, answers
                    if chance.random() < self.attention:
                        requests, kind = curious, maps
                    if not await ask(call, next(requests), self.deadline, kind):
                        await asyncio.sleep(BACK_OFF_SECONDS)

            await asyncio.gather(*(caller() for _ in range(self.in_flight)))
        found = maps.figures(self.seconds, self.texts)
        return answers.figures(self.seconds, self.texts) | {
            "answers": float(self.texts * (answers.all + maps.all)),
            "attention_per_second": found["per_second"],
            "attention_p50_ms": found["p50_ms"],
        }


@dataclass(frozen=True, kw_only=True)
class Open:
    """Requests at random times, whatever becomes of those before."""

    address: str
    seconds: float
    rate: float
    deadline: float

    async def run(self, lines: list[str]) -> dict[str, float]:
        requests = itertools.cycle(messages(lines, 1))
        arrivals = random.Random(0)  # noqa: S311 - reproducible, not secret
        async with grpc.aio.insecure_channel(self.address) as channel:
            call = channel.unary_unary(CLASSIFY)
            at = time.perf_counter()
            begin = at + WARM_UP_SECONDS
            answers = Answers(begin=begin, end=begin + self.seconds)
            tasks = []
            while at < answers.end:
                at += arrivals.expovariate(self.rate)
                await asyncio.sleep(max(0.0, at - time.perf_counter()))
                asking = ask(call, next(requests), self.deadline, answers)
                tasks.append(asyncio.create_task(asking))
            await asyncio.gather(*tasks)
        return answers.figures(self.seconds)


async def ask(call: Any, request: bytes, deadline: float, answers: Answers) -> bool:
    """Whether it was answered in time."""
    start = time.perf_counter()
    try:
        await call(request, timeout=deadline)
        answered = True
    except grpc.aio.AioRpcError:
        answered = False
    end = time.perf_counter()
    answers.all += answered
    if answers.begin <= end <= answers.end:
        # What comes near the deadline is no refusal, whatever the server calls it.
        if answered:
            answers.in_time.append(end - start)
        elif end - start < 0.9 * deadline:
            answers.refused.append(end - start)
        else:
            answers.late += 1
    return answered


def messages(
    lines: list[str], size: int, attention: pb.AttentionOptions | None = None
) -> list[bytes]:
    groups = [lines[at : at + size] for at in range(0, len(lines) - size + 1, size)]
    return [
        pb.ClassifyRequest(
            inputs=[pb.Input(text=text) for text in group], attention=attention
        ).SerializeToString()
        for group in groups
    ]


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    load = Open(**asked) if "rate" in asked else Closed(**asked)
    print(json.dumps(asyncio.run(load.run([line.rstrip("\n") for line in sys.stdin]))))
