"""An engine whose device has too little memory, or fails for good, behind scheduler and server."""

import asyncio

import numpy as np
import pytest
import torch

from service.backends import FloatArray
from service.backends.failures import device_failure
from service.errors import DeviceLostError, DeviceMemoryError
from service.metrics import Metrics
from service.request.attention import AttentionSelection
from service.scheduler import Scheduler
from tests.service.engines import NumpyEngine, expected_logits

ORT_MEMORY = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running "
    "MatMul node. Name:'MatMul_1' Status Message: bfc_arena.cc:376 void* onnxruntime::BFCArena::"
    "AllocateRawInternal Failed to allocate memory for requested buffer of size 8388608000"
)
ORT_LOST = (
    "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 700: an illegal memory access was encountered ; "
    "GPU=0 ; hostname=a ; file=gpu_data_transfer.cc ; line=73 ; expr=cudaMemcpyAsync(dst, src);"
)
EVERYTHING = AttentionSelection((0, 1), (0, 1, 2), None, False, "float32")


class SmallEngine(NumpyEngine):
    """Has memory for so many tokens at once, attention taking all its slots."""

    def __init__(self, room: int, error: Exception) -> None:
        super().__init__()
        self.room, self.error = room, error
        self.sizes: list[int] = []

    def run(self, rows) -> FloatArray:
        self.sizes.append(rows.num_tokens)
        if rows.num_tokens > self.room:
            raise self.error
        return super().run(rows)


async def classified(engine: NumpyEngine, metrics: Metrics, *requests, **options):
    """What became of requests that wait together."""
    async with asyncio.timeout(10):
        scheduler = Scheduler(engine, metrics=metrics, max_run_tokens=1000)
        calls = [scheduler.classify(texts, **options) for texts in requests]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await scheduler.close(5)
    return outcomes, scheduler


@pytest.mark.parametrize(
    "error",
    [RuntimeError(ORT_MEMORY), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")],
    ids=["onnxruntime", "torch"],
)
async def test_a_run_that_does_not_fit_is_halved_until_it_does(error) -> None:
    engine, metrics = SmallEngine(30, error), Metrics()
    texts = [[number] * 10 for number in range(1, 9)]
    (outcome,), _ = await classified(engine, metrics, texts)
    got = np.stack([result.logits for result in outcome.results])
    assert np.array_equal(got, np.stack([expected_logits(text) for text in texts]))
    assert engine.sizes == [80, 40, 20, 20, 20, 20]
    assert metrics.registry.get_sample_value("heedful_out_of_memory_total") == 2
    assert metrics.registry.get_sample_value("heedful_tokens_total", {"kind": "real"}) == 80


async def test_later_runs_are_small_from_the_start() -> None:
    engine, metrics = SmallEngine(30, RuntimeError(ORT_MEMORY)), Metrics()
    texts = [[number] * 10 for number in range(1, 9)]
    scheduler = Scheduler(engine, metrics=metrics, max_run_tokens=1000)
    await scheduler.classify(texts)
    engine.sizes.clear()
    await scheduler.classify(texts)
    await scheduler.close(5)
    assert engine.sizes == [20] * 4
    assert not scheduler.lost


async def test_a_text_that_does_not_fit_alone_is_refused_and_its_neighbours_are_answered() -> None:
    engine, metrics = SmallEngine(30, RuntimeError(ORT_MEMORY)), Metrics()
    (first, long, last), _ = await classified(engine, metrics, [[1] * 5], [[2] * 31], [[3] * 5])
    assert isinstance(long, DeviceMemoryError)
    assert "31 tokens" in str(long)
    assert first.results[0].logits[2] == 1
    assert last.results[0].logits[2] == 3


async def test_attention_that_does_not_fit_does_not_make_plain_runs_smaller() -> None:
    engine, metrics = SmallEngine(30, RuntimeError(ORT_MEMORY)), Metrics()
    texts = [[number] * 10 for number in range(1, 9)]
    scheduler = Scheduler(engine, metrics=metrics, max_run_tokens=1000)
    outcome = await scheduler.classify(texts, attention=EVERYTHING)
    assert all(result.attention is not None for result in outcome.results)
    engine.sizes.clear()
    engine.room = 1000
    await scheduler.classify(texts)
    await scheduler.close(5)
    assert engine.sizes == [80]


async def test_a_lost_device_is_asked_nothing_more_and_all_callers_are_told() -> None:
    engine, metrics = SmallEngine(0, RuntimeError(ORT_LOST)), Metrics()
    outcomes, scheduler = await classified(engine, metrics, [[1], [2]], [[3]])
    assert [type(outcome) for outcome in outcomes] == [DeviceLostError, DeviceLostError]
    assert len(engine.sizes) == 1
    assert scheduler.lost == "cpu is lost: RuntimeError"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (RuntimeError(ORT_MEMORY), "memory"),
        (torch.OutOfMemoryError("any words"), "memory"),
        (torch.AcceleratorError("CUDA error: out of memory"), "memory"),
        (RuntimeError("CUDA failure 2: out of memory ; GPU=0 ; hostname=a"), "memory"),
        (RuntimeError("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0"), "memory"),
        (RuntimeError(ORT_LOST), "lost"),
        (RuntimeError("CUDA failure 719: unspecified launch failure ; GPU=0"), "lost"),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), "lost"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "lost"),
        (RuntimeError("CUDA failure 1: invalid argument ; GPU=1 ; hostname=a"), None),
        (RuntimeError("CUDA error: invalid device ordinal"), None),
        (RuntimeError("the engine broke"), None),
        (ValueError("the engine answered 2 texts instead of 700"), None),
    ],
    ids=str,
)
def test_errors_of_both_engines_are_told_apart(error, failure) -> None:
    assert device_failure(error) == failure
