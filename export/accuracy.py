"""Measures what int8 costs in accuracy on labelled texts, and refuses too much."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from export.errors import AccuracyError
from export.graphs import CLASSIFY
from export.parity import feed_of, open_session
from model.bundle import Manifest
from model.data.dataset import Source
from model.encoder import EncoderClassifier
from model.packing import PackedRows
from model.training.batches import EncodedTexts
from model.training.metrics import score
from model.training.prediction import FloatArray, predict
from model.weights import as_tensors

ALLOWED_DROP = 0.005  # half a point
TOKENS_PER_BATCH = 1024
KEPT_FIGURES = ("accuracy", "macro_f1", "nll")


@dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """A split of a data set, ready to run, and where it is from."""

    texts: EncodedTexts
    source: Source
    split: str


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """int8 as it is asked for.

    Attributes:
        measured_on: texts that training did not see; None only with force.
        force: written even if it loses too much, or if nobody can tell.
    """

    measured_on: LabelledTexts | None
    force: bool = False

    def __post_init__(self) -> None:
        if self.measured_on is None and not self.force:
            raise ValueError("int8 needs labelled texts to measure its accuracy on, or force")


def measure_accuracy(
    encoder: EncoderClassifier, folder: Path, manifest: Manifest, quantization: Quantization
) -> dict[str, Any]:
    """Scores classify.onnx of a folder beside the encoder, for bundle.json.

    Raises:
        AccuracyError: more than ALLOWED_DROP is lost, and not forced.
    """
    labelled = quantization.measured_on
    if labelled is None:
        return {"forced": True}
    texts, pad = labelled.texts, encoder.config.pad_token_id
    session = open_session(folder, CLASSIFY)

    @torch.inference_mode()
    def run_float32(rows: PackedRows) -> FloatArray:
        logits: FloatArray = encoder(*as_tensors(rows))[0].numpy()
        return logits

    def run_int8(rows: PackedRows) -> FloatArray:
        logits: FloatArray = session.run(None, feed_of(rows))[0]
        return logits

    float32 = predict(run_float32, texts, TOKENS_PER_BATCH, pad)
    int8 = predict(run_int8, texts, TOKENS_PER_BATCH, pad)
    record = {
        "data": labelled.source.name,
        "fingerprints": labelled.source.fingerprints,
        "split": labelled.split,
        "num_texts": len(texts),
        "float32": _figures(float32, texts, manifest),
        "int8": _figures(int8, texts, manifest),
        "answers_changed": _num_changed(float32, int8, manifest),
        "largest_logit_difference": float(np.abs(float32 - int8).max()),
        "allowed_drop": ALLOWED_DROP,
    }
    return {**record, "forced": _is_forced(record, force=quantization.force)}


def _figures(logits: FloatArray, texts: EncodedTexts, manifest: Manifest) -> dict[str, float]:
    figures = score(logits, texts.targets.numpy(), manifest.labels, manifest.problem_type)
    return {name: figures[name] for name in KEPT_FIGURES}


def _num_changed(float32: FloatArray, int8: FloatArray, manifest: Manifest) -> int:
    def answers(logits: FloatArray) -> npt.NDArray[Any]:
        single = manifest.problem_type == "single_label"
        return np.asarray(logits.argmax(1, keepdims=True) if single else logits >= 0.0)

    return int((answers(float32) != answers(int8)).any(1).sum())


def _is_forced(record: dict[str, Any], force: bool) -> bool:
    """Whether only force lets it pass."""
    float32, int8 = record["float32"]["accuracy"], record["int8"]["accuracy"]
    # A drop of exactly half a point may come out a little more in binary.
    if float32 - int8 <= ALLOWED_DROP + 1e-9:
        return False
    if not force:
        raise AccuracyError(
            f"int8 loses {100 * (float32 - int8):.2f} points of accuracy on {record['split']} of "
            f"{record['data']} ({record['num_texts']:,} texts: float32 {float32:.2%}, int8 "
            f"{int8:.2%}), {100 * ALLOWED_DROP:.1f} are allowed, and nothing was written: serve "
            "the float32 export, or accept the loss with --force"
        )
    return True
