"""int8 with a scale per token against float32 and against ONNX Runtime's own int8, in one run.

Kinds of texts are those of a mixed load: 60 % short (median 24 tokens), 25 % middle (51), 15 % long
(234, cut at 512). They are run one by one, and packed within a run's tokens, texts of like length
together as the scheduler does. One thread, timed in seconds of its processor.

Run: python -m benchmarks.int8 [minilm | tiny | small | base]
"""

import logging
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.bundles import random_bundle
from benchmarks.packing import RUN_TOKENS, Texts, seconds, texts_of, within
from export.accuracy import Quantization
from export.bundle import export_bundle
from model.bundle import CLASSIFY_GRAPH, Bundle, load_bundle, seal
from model.packing import PackedRows, pack
from service.backends import Backend, FloatArray
from service.backends.loading import load_backend

OURS, DYNAMIC, FLOAT32 = "int8 per token", "int8 of ONNX Runtime", "float32"
NUM_TEXTS, ROUNDS = 120, 7
# Share, median tokens and spread of each kind of text.
KINDS = {"short": (0.60, 24, 0.5), "middle": (0.25, 51, 0.5), "long": (0.15, 234, 0.7)}


def lengths_of(kind: str) -> list[int]:
    share, median, spread = KINDS[kind]
    rng = np.random.default_rng(1)
    drawn = rng.lognormal(np.log(median), spread, size=round(share * NUM_TEXTS))
    return [int(length) for length in np.clip(drawn, 3, 512)]


def one_by_one(texts: Texts) -> list[PackedRows]:
    return [pack([text]) for text in texts]


def packed(texts: Texts) -> list[PackedRows]:
    """Texts of like length together, as many a run as fit."""
    return [pack(group) for group in within(sorted(texts, key=len), RUN_TOKENS)]


WAYS: dict[str, Callable[[Texts], list[PackedRows]]] = {"one by one": one_by_one, "packed": packed}


@contextmanager
def engines(size: str) -> Iterator[dict[str, Backend]]:
    """The same weights three times, each behind the backend that serves them."""
    with random_bundle(size) as float32, tempfile.TemporaryDirectory() as folder:
        quantization = Quantization(measured_on=None, force=True)
        int8 = export_bundle(float32.path, Path(folder) / "int8", quantization=quantization)
        dynamic = dynamic_int8(float32, Path(folder))
        bundles = {FLOAT32: float32, DYNAMIC: dynamic, OURS: int8}
        yield {name: load_backend("onnx", bundle, threads=1) for name, bundle in bundles.items()}


def dynamic_int8(bundle: Bundle, folder: Path) -> Bundle:
    """The bundle with classify.onnx as ONNX Runtime quantizes it: a scale for all tokens."""
    copy, whole = folder / "dynamic", folder / "whole.onnx"
    shutil.copytree(bundle.path, copy)
    onnx.save(onnx.load(bundle.file(CLASSIFY_GRAPH)), whole)
    logging.disable(logging.WARNING)  # it recommends a step that this graph has no use for
    quantize_dynamic(
        whole,
        copy / CLASSIFY_GRAPH,
        weight_type=QuantType.QInt8,
        per_channel=True,
        op_types_to_quantize=["MatMul", "Gemm"],
    )
    logging.disable(logging.NOTSET)
    seal(copy, bundle.manifest, list(bundle.files))
    return load_bundle(copy)


def medians(backends: dict[str, Backend], runs: list[PackedRows]) -> dict[str, float]:
    """Seconds of each engine, taken in turns so that a busy moment hits all of them."""
    taken: dict[str, list[float]] = {name: [] for name in backends}
    for _ in range(ROUNDS):
        for name, backend in backends.items():
            taken[name].append(seconds(backend, runs))
    return {name: statistics.median(values) for name, values in taken.items()}


def compare(backends: dict[str, Backend]) -> None:
    texts = {kind: texts_of(lengths_of(kind)) for kind in KINDS}
    texts["mix"] = [text for kind in KINDS for text in texts[kind]]
    for kind, some in texts.items():
        tokens = sum(map(len, some))
        print(f"{kind}: {len(some)} texts, mean {tokens / len(some):.0f} tokens")
        for way, make in WAYS.items():
            taken = medians(backends, make(some))
            for name, value in taken.items():
                print(
                    f"  {way:<11} {name:<21} {len(some) / value:>7,.0f} texts/s "
                    f"{tokens / value:>8,.0f} tokens/s   {taken[FLOAT32] / value:.2f}x float32"
                )
        sys.stdout.flush()


def logits_of(backend: Backend, runs: list[PackedRows]) -> FloatArray:
    return np.concatenate([backend.run(rows) for rows in runs])


def differences(backends: dict[str, Backend]) -> None:
    """How far each engine is from itself when texts get neighbours, and from float32."""
    texts = sorted((text for kind in KINDS for text in texts_of(lengths_of(kind))), key=len)
    alone = {name: logits_of(backend, one_by_one(texts)) for name, backend in backends.items()}
    print("Largest difference of a logit, random weights:")
    for name, backend in backends.items():
        neighbours = np.abs(logits_of(backend, packed(texts)) - alone[name]).max()
        error = np.abs(alone[name] - alone[FLOAT32]).max()
        print(f"  {name:<21} alone and packed {neighbours:.1e}   from float32 {error:.1e}")


def main(size: str = "minilm") -> None:
    started = time.monotonic()
    print(
        f"{size}, one session, one thread, median of {ROUNDS} rounds; packed: {RUN_TOKENS} tokens"
    )
    with engines(size) as backends:
        compare(backends)
        differences(backends)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
