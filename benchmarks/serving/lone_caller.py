"""Where a lone caller's time goes: one blocking call after another, beside the same in process.

Run: python -m benchmarks.serving.lone_caller [SIZE] [float32 | int8] [ROUNDS]

Each text is compared with itself, so that their lengths do not matter.
"""

import sys
import time

import grpc
import numpy as np

from benchmarks.bundles import random_bundle
from benchmarks.serving.echo import METHOD
from benchmarks.serving.limit import Limit
from benchmarks.serving.load import CLASSIFY, messages
from benchmarks.serving.servers import Address, module, serving
from benchmarks.serving.texts import made_up_texts
from heedful.v1 import classifier_pb2 as pb

NUM_TEXTS = 150
STAGES = ("tokenizing", "waiting for the engine", "engine", "the rest of the server", "gRPC")


def lone_caller(server: Address, limit: Limit, texts: list[str], rounds: int) -> None:
    texts = texts[:NUM_TEXTS]
    requests = messages(texts, 1)
    with module("echo") as echo, grpc.insecure_channel(echo.address) as to_echo:
        repeat = to_echo.unary_unary(METHOD)
        with grpc.insecure_channel(server.address) as to_server:
            call = to_server.unary_unary(CLASSIFY)
            inside, served, warm, cold = [], [], [], []
            for _ in range(rounds):
                inside.append([limit.answer(text) for text in texts])
                served.append([stages(call, request) for request in requests])
                warm.append([seconds(repeat, request) for request in requests])
                cold.append([])
                for text, request in zip(texts, requests, strict=True):
                    limit.answer(text)
                    cold[-1].append(seconds(repeat, request))
    show(*(1e3 * np.median(values, axis=0) for values in (inside, served, warm, cold)))


def seconds(call: grpc.UnaryUnaryMultiCallable, request: bytes) -> float:
    start = time.perf_counter()
    call(request, timeout=60)
    return time.perf_counter() - start


def stages(call: grpc.UnaryUnaryMultiCallable, request: bytes) -> list[float]:
    """Seconds of STAGES, and of all of them."""
    start = time.perf_counter()
    answer = call(request, timeout=60)
    total = time.perf_counter() - start
    timings = pb.ClassifyResponse.FromString(answer).timings
    known = [timings.tokenize_seconds, timings.queue_seconds, timings.compute_seconds]
    return [*known, timings.total_seconds - sum(known), total - timings.total_seconds, total]


def show(inside: np.ndarray, served: np.ndarray, warm: np.ndarray, cold: np.ndarray) -> None:
    """Milliseconds of each text: (N,), (N, stages), (N,), (N,)."""
    gap = np.median(served[:, -1] - inside)
    print(
        f"A lone caller, medians over {len(inside)} texts: in process {np.median(inside):.2f} ms, "
        f"served {np.median(served[:, -1]):.2f} ms, {gap:+.2f} ms for the same text"
    )
    for stage, values in zip(STAGES, served.T, strict=False):
        print(f"  {stage}: {np.median(values):.2f} ms")
    print(
        f"  an empty gRPC call: {np.median(warm):.2f} ms, "
        f"and {np.median(cold):.2f} ms with an engine run before each"
    )


def main(size: str = "minilm", precision: str = "int8", rounds: str = "3") -> None:
    with random_bundle(size, int8=precision == "int8") as bundle, serving(bundle) as server:
        texts = made_up_texts(bundle.manifest.max_tokens)
        lone_caller(server, Limit(bundle, texts), texts, int(rounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
