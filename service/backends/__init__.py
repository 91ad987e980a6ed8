"""Engines that run packed rows: the seam between the scheduler and ONNX Runtime or PyTorch."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from model.packing import PackedRows

FloatArray = npt.NDArray[np.float32]


class Backend(Protocol):
    """One engine with one model; run from worker threads, several at once if shared.

    Attributes:
        name: "onnxruntime" or "torch".
        device: "cpu" or "cuda:0".
        precision: numbers it computes logits with, as "float32".
        has_attention: whether run_with_attentions can answer.
    """

    name: str
    device: str
    precision: str
    has_attention: bool

    def run(self, rows: PackedRows) -> FloatArray:
        """Logits (B, C) of the packed texts, in packed order."""
        ...

    def run_with_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        """Logits (B, C) and attentions (R, L, H, T, T), float32."""
        ...
