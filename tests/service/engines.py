"""An engine in numpy that implements the Backend seam and can be made to fail, wait or hang."""

import threading

import grpc
import numpy as np

from model.bundle import Bundle
from model.packing import PackedRows
from service.backends import FloatArray
from tests.service.calls import TIMEOUT, Caller, texts

# A text that ends with one of these makes the engine misbehave.
RAISES, NOT_A_NUMBER, MISCOUNTS, WAITS = 101, 102, 103, 104


class NumpyEngine:
    """Logits that name their text: number of tokens, sum of ids, first id."""

    name, device, precision, has_attention = "numpy", "cpu", "float32", True
    num_layers, num_heads = 2, 3

    def __init__(self, *, open_gate: bool = True) -> None:
        self.gate = threading.Event()
        self.started = threading.Event()
        self.inner_gate = threading.Event()  # for runs with a text that waits
        self.runs: list[list[tuple[int, ...]]] = []
        if open_gate:
            self.gate.set()

    def run(self, rows: PackedRows) -> FloatArray:
        texts = texts_of(rows)
        self.runs.append(texts)
        self.started.set()
        if not self.gate.wait(timeout=20):
            raise TimeoutError("the test never opened the gate")
        ends = {text[-1] for text in texts}
        if WAITS in ends:
            assert self.inner_gate.wait(timeout=20), "the test never opened the inner gate"
        if RAISES in ends:
            raise RuntimeError("the engine broke")
        logits = np.stack([expected_logits(text) for text in texts])
        return logits[:-1] if MISCOUNTS in ends else logits

    def run_with_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        logits = self.run(rows)
        same = rows.sequence_ids[:, :, None] == rows.sequence_ids[:, None, :]  # (R, T, T)
        uniform = same / same.sum(-1, keepdims=True)
        shape = (len(same), self.num_layers, self.num_heads, *same.shape[1:])
        return logits, np.broadcast_to(uniform[:, None, None], shape).astype(np.float32)


class GoldenEngine(NumpyEngine):
    """Knows a bundle's example, so that a server takes it into service."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__()
        self._golden = bundle.manifest.golden

    def run(self, rows: PackedRows) -> FloatArray:
        logits = super().run(rows)
        if self.runs[-1] == [tuple(self._golden.input_ids)]:
            logits[0] = self._golden.logits
        return logits


def texts_of(rows: PackedRows) -> list[tuple[int, ...]]:
    return [
        tuple(rows.input_ids[span.row, span.start : span.start + span.length].tolist())
        for span in rows.spans
    ]


def expected_logits(text: tuple[int, ...] | list[int]) -> FloatArray:
    if text[-1] == NOT_A_NUMBER:
        return np.array([np.nan, 0.0, 0.0], dtype=np.float32)
    return np.array([len(text), sum(text), text[0]], dtype=np.float32)


def hold(held: Caller, engine: GoldenEngine) -> grpc.Future:
    """Occupies the engine with one call until its gate opens."""
    engine.gate.clear()
    engine.started.clear()
    call = held.stub.Classify.future(texts("kind"), timeout=TIMEOUT)
    assert engine.started.wait(10)
    return call
