"""Proves on a machine with a GPU what elsewhere can only be read: parity, serving, memory, speed.

Run: python -m benchmarks.gpu_check   (under 5 minutes; exit code 0 if all holds, 1 if something
does not, 2 if there is no GPU)
"""

import argparse
import asyncio
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import grpc
import numpy as np

from benchmarks.bundles import VOCAB_SIZE, random_bundle
from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.bundle import Bundle
from model.packing import PackedRows, pack
from service.backends import Backend, FloatArray
from service.backends.device import CPU
from service.backends.loading import BFLOAT16_TOLERANCE, BackendKind, check_golden, load_backend
from service.config import ServerConfig
from service.metrics import Metrics
from service.scheduling.fitting import Fitting
from service.server import Server

NO_GPU = 2
FLOAT32_TOLERANCE = 1e-3
ATTENTION_TOLERANCE = 1e-4
# Between the probabilities of two labels: texts that are nearer may get the other label.
CONFIDENT = 0.1
RUN_TOKENS = (256, 1024, 4096, 16384)
TEXT_TOKENS = 64
SECONDS = 1.0
# For the model and little more, so that a large run cannot fit.
SMALL_MEMORY_MB = 1024


def found_gpu(kind: BackendKind) -> str:
    """Why this engine has no GPU here; empty if it has one."""
    if kind == "torch":
        import torch

        return "" if torch.cuda.is_available() else "torch finds none"
    import onnxruntime

    has_cuda = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    # Without a driver the provider is listed all the same.
    if has_cuda and shutil.which("nvidia-smi"):
        return ""
    return "ONNX Runtime was built without CUDA" if not has_cuda else "there is no nvidia-smi"


def texts(lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    chance = np.random.default_rng(seed)
    return [chance.integers(VOCAB_SIZE, size=length).tolist() for length in lengths]


def ragged(seed: int) -> PackedRows:
    lengths = np.random.default_rng(seed).integers(1, 200, size=40)
    return pack(texts([*lengths.tolist(), 512, 1], seed))


def check_logits(got: FloatArray, expected: FloatArray, tolerance: float) -> str:
    """Raises if they differ by more than the tolerance, or in the label of a confident text."""
    distance = float(np.abs(got - expected).max())
    assert distance < tolerance, f"logits differ by {distance:.2g}, allowed {tolerance:g}"
    probs = np.exp(expected - expected.max(-1, keepdims=True))
    probs = np.sort(probs / probs.sum(-1, keepdims=True), axis=-1)
    confident = probs[:, -1] - probs[:, -2] > CONFIDENT
    same = got.argmax(-1) == expected.argmax(-1)
    assert same[confident].all(), f"{(~same[confident]).sum()} confident labels differ"
    return f"logits within {distance:.2g}, {confident.sum()} confident labels equal"


def parity(backend: Backend, reference: Backend, bundle: Bundle) -> str:
    """Golden example, logits of ragged rows, and attention, against float32 on the CPU."""
    check_golden(backend, bundle)
    rows = ragged(1)
    expected = reference.run(rows)
    tolerance = FLOAT32_TOLERANCE
    if backend.precision == "bfloat16":
        tolerance = BFLOAT16_TOLERANCE * max(1.0, float(np.abs(expected).max()))
    said = check_logits(backend.run(rows), expected, tolerance)
    few = pack(texts([5, 60, 17], 2))
    logits, attentions = backend.run_with_attentions(few)
    expected, expected_attentions = reference.run_with_attentions(few)
    check_logits(logits, expected, tolerance)
    distance = float(np.abs(attentions - expected_attentions).max())
    assert distance < ATTENTION_TOLERANCE, f"attentions differ by {distance:.2g}"
    return f"{backend.precision}: {said}, attentions within {distance:.2g}"


def memory(kind: BackendKind, device: str, bundle: Bundle) -> str:
    """A run that is too large for a small limit is answered in parts."""
    backend = load_backend(
        kind, bundle, device=device, threads=1, gpu_memory_mb=SMALL_MEMORY_MB, compiled=False
    )
    metrics = Metrics()
    many = texts([512] * 512)
    run = Fitting(metrics).run(backend, many, None, bundle.config.pad_token_id)
    failed = sum(result is None or isinstance(result, Exception) for result in run.results)
    halved = metrics.registry.get_sample_value("heedful_out_of_memory_total")
    assert not failed, f"{failed} of {len(many)} texts were not answered"
    assert halved, f"{len(many) * 512} tokens fit into {SMALL_MEMORY_MB} MiB: nothing was shown"
    return f"{halved:.0f} runs did not fit into {SMALL_MEMORY_MB} MiB, all texts were answered"


@asynccontextmanager
async def serving(config: ServerConfig, bundle: Bundle):
    server = Server(config, bundle)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield ClassifierStub(channel)
    finally:
        await server.stop()


async def serve(kind: BackendKind, device: str, bundle: Bundle) -> str:
    """A server on the device classifies, shows attention, and says where it runs."""
    config = ServerConfig(
        backend=kind, device=device, port=0, metrics_port=0, no_compile=True, grace=5.0
    )
    async with serving(config, bundle) as stub:
        model = await stub.GetModel(pb.GetModelRequest(), timeout=60)
        assert model.device.startswith("cuda:"), f"the server says it runs on {model.device}"
        request = pb.ClassifyRequest(inputs=[pb.Input(text="words of no meaning")] * 16)
        answers = await asyncio.gather(*(stub.Classify(request, timeout=60) for _ in range(32)))
        assert all(len(answer.results) == 16 for answer in answers)
        request.attention.SetInParent()
        answer = await stub.Classify(request, timeout=60)
        assert all(result.HasField("attention") for result in answer.results)
    return f"{32 * 16} texts classified and 16 with attention on {model.device}"


def texts_per_second(backend: Backend, run_tokens: int) -> float:
    rows = pack(texts([TEXT_TOKENS] * (run_tokens // TEXT_TOKENS)))
    for _ in range(2):
        backend.run(rows)
    runs, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        backend.run(rows)
        runs += 1
    return runs * len(rows.spans) / (time.perf_counter() - start)


def speed(backend: Backend, reference: Backend) -> str:
    """Texts/s by size of a run, and of the CPU's own size beside it."""
    own = texts_per_second(reference, RUN_TOKENS[0])
    lines = [f"texts of {TEXT_TOKENS} tokens/s; onnxruntime on the CPU {own:,.0f}"]
    for run_tokens in RUN_TOKENS:
        rate = texts_per_second(backend, run_tokens)
        lines.append(f"    {run_tokens:>6} tokens a run {rate:>10,.0f}  ({rate / own:.1f} x CPU)")
    return "\n".join(lines)


def checked(name: str, check: Callable[[], str]) -> bool:
    """Runs one check and prints what came of it; the others go on if it fails."""
    start = time.perf_counter()
    try:
        said, good = check(), True
    except Exception:
        said, good = traceback.format_exc(), False
    verdict = "ok    " if good else "FAILED"
    print(f"{verdict} {name} ({time.perf_counter() - start:.0f} s): {said}", flush=True)
    return good


def check_kind(
    kind: BackendKind, device: str, bundle: Bundle, reference: Backend, compiled: bool
) -> list[bool]:
    """All checks of one engine."""
    loaded: list[Backend] = []

    def load() -> str:
        loaded.append(load_backend(kind, bundle, device=device, threads=1, compiled=compiled))
        return f"{loaded[0].name} on {loaded[0].device}"

    if not checked(f"{kind} loads", load):
        return [False]
    (backend,) = loaded
    results = [
        checked(f"{kind} parity", partial(parity, backend, reference, bundle)),
        checked(f"{kind} speed", partial(speed, backend, reference)),
        checked(f"{kind} serves", lambda: asyncio.run(serve(kind, device, bundle))),
    ]
    # Last, since torch's limit is one for the process.
    loaded.clear()
    del backend
    return [*results, checked(f"{kind} memory", partial(memory, kind, device, bundle))]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--backend", choices=["onnx", "torch"], action="append")
    parser.add_argument("--no-compile", action="store_true", help="saves a minute or two")
    given = parser.parse_args(arguments)
    kinds: list[BackendKind] = given.backend or ["onnx", "torch"]
    lacking = {kind: why for kind in kinds if (why := found_gpu(kind))}
    if lacking:
        print("no GPU to check: " + "; ".join(f"{kind}: {why}" for kind, why in lacking.items()))
        return NO_GPU
    with random_bundle(given.preset) as bundle:
        reference = load_backend("onnx", bundle, device=CPU, threads=8)
        compiled = not given.no_compile
        results = [check_kind(kind, given.device, bundle, reference, compiled) for kind in kinds]
    return 0 if all(map(all, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
