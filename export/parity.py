"""Measures how far the graphs are from PyTorch, and refuses graphs that are too far.

Letters: R rows, T row length, B texts, L layers, H heads, C classes.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

from export.errors import ParityError
from export.graphs import ATTENTION, CLASSIFY, Graph
from model.bundle import Precision
from model.encoder import EncoderClassifier
from model.errors import InvalidInputError
from model.packing import PackedRows, pack
from model.processor import SLOW_FUSIONS, cuts_byte_sums
from model.tokenizer import TextEncoder
from model.weights import as_tensors

Array = npt.NDArray[Any]

# Some of these will be unknown words to some vocabularies; the graphs must agree all the same.
TEXTS: dict[str, tuple[str, str | None]] = {
    "pair": ("What does the story ask of us?", "Patience, and it pays us back."),
    "Chinese": ("这家店的面很好吃，下次还会再来。", None),
    "emoji": ("👩‍👩‍👧 went home 😀😀 🇨🇭!", None),
}
NUM_PACKED_TEXTS = 24


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Largest absolute differences of one case; 0 is perfect.

    Attributes:
        classify_logits: classify.onnx against PyTorch.
        attention_logits: attention.onnx against PyTorch.
        logits_between_graphs: one graph against the other.
        attentions: attention.onnx against PyTorch.
        row_sums: a query's attention against a sum of 1.
        outside_text: attention on padding or on neighbours.
        neighbours: classify.onnx on packed texts against the same texts alone.
    """

    classify_logits: float
    attention_logits: float
    logits_between_graphs: float
    attentions: float
    row_sums: float
    outside_text: float
    neighbours: float


FLOAT32 = Figures(
    classify_logits=1e-4,
    attention_logits=1e-4,
    logits_between_graphs=1e-4,
    attentions=1e-5,
    row_sums=1e-5,
    outside_text=0.0,
    neighbours=1e-4,
)
# Accuracy says whether int8 is good enough; logits as far off as this say that a graph is wrong.
INT8 = replace(FLOAT32, classify_logits=0.25, logits_between_graphs=0.25, neighbours=1e-6)
TOLERANCES: dict[Precision, Figures] = {"float32": FLOAT32, "int8": INT8}


def measure_parity(
    encoder: EncoderClassifier,
    folder: Path,
    text_encoder: TextEncoder,
    precision: Precision = "float32",
) -> dict[str, Figures]:
    """Compares both graphs of a folder with the encoder, case by case.

    Raises:
        ParityError: a case is farther off than the precision allows; the message has the figures.
    """
    classify, attention = (open_session(folder, graph) for graph in (CLASSIFY, ATTENTION))
    measured = {
        name: _compare(encoder, classify, attention, rows)
        for name, rows in parity_cases(encoder, text_encoder)
    }
    check_tolerance(measured, precision)
    return measured


def check_tolerance(measured: Mapping[str, Figures], precision: Precision = "float32") -> None:
    """Raises a ParityError that names each figure beyond TOLERANCES; NaN is beyond."""
    limits = asdict(TOLERANCES[precision])
    beyond = [
        f"{name}: {figure} {value:.2g}, allowed {limits[figure]:.2g}"
        for name, figures in measured.items()
        for figure, value in asdict(figures).items()
        if not value <= limits[figure]
    ]
    if beyond:
        raise ParityError(
            "the graphs do not answer as PyTorch does, and nothing was written: "
            + "; ".join(beyond)
        )


def parity_cases(
    encoder: EncoderClassifier, text_encoder: TextEncoder
) -> Iterator[tuple[str, PackedRows]]:
    """The rows to compare on, with a name for each."""
    config, rng = encoder.config, np.random.default_rng(11)

    def random_rows(*lengths: int) -> PackedRows:
        texts = [rng.integers(config.vocab_size, size=length).tolist() for length in lengths]
        return pack(texts, config.pad_token_id)

    longest = config.max_position_embeddings
    yield "one token", random_rows(1)
    yield "maximum length", random_rows(longest)
    yield "packed", random_rows(*rng.integers(1, min(longest, 64) + 1, size=NUM_PACKED_TEXTS))
    for name, (text, pair) in TEXTS.items():
        with suppress(InvalidInputError):  # a model for fewer tokens than a pair needs
            ids = text_encoder.encode(text, pair, "head").input_ids
            yield name, pack([ids], config.pad_token_id)


def open_session(folder: Path, graph: Graph) -> onnxruntime.InferenceSession:
    """A session on the CPU that shares it well with PyTorch."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    # Idle threads would wait busily while PyTorch has its turn.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.x64quantprecision", str(int(cuts_byte_sums())))
    return onnxruntime.InferenceSession(
        folder / graph.file,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=SLOW_FUSIONS,
    )


@torch.inference_mode()
def _compare(
    encoder: EncoderClassifier,
    classify: onnxruntime.InferenceSession,
    attention: onnxruntime.InferenceSession,
    rows: PackedRows,
) -> Figures:
    plain_logits, _ = encoder(*as_tensors(rows))  # the fused form, which neither graph has
    expected_logits, expected_attentions = encoder(*as_tensors(rows), with_attentions=True)
    feed = feed_of(rows)
    config = encoder.config
    gate = np.ones((config.num_hidden_layers, config.num_attention_heads), dtype=np.float32)
    (logits,) = classify.run(None, feed)
    attention_logits, attentions = attention.run(None, {**feed, "head_gate": gate})
    real, outside = _places(rows, attentions)
    return Figures(
        classify_logits=_distance(logits, plain_logits.numpy()),
        attention_logits=_distance(attention_logits, expected_logits.numpy()),
        logits_between_graphs=_distance(attention_logits, logits),
        attentions=_distance(attentions, expected_attentions.numpy()),
        row_sums=_distance(attentions.sum(-1)[real], np.float32(1)),
        outside_text=_distance(attentions[outside], np.float32(0)),
        neighbours=_distance(_alone(classify, rows), logits),
    )


def _alone(classify: onnxruntime.InferenceSession, rows: PackedRows) -> Array:
    """Logits (B, C) of each text in a row of its own."""
    texts = (rows.input_ids[span.row, span.start :][: span.length].tolist() for span in rows.spans)
    answers = [classify.run(None, feed_of(pack([text])))[0] for text in texts]
    return np.concatenate(answers)


def feed_of(rows: PackedRows) -> dict[str, Array]:
    """The inputs of classify.onnx."""
    return {name: getattr(rows, name) for name in CLASSIFY.inputs}


def _places(rows: PackedRows, attentions: Array) -> tuple[Array, Array]:
    """Where queries are real (R, L, H, T), and where a real query looks outside its text."""
    query, key = rows.sequence_ids[:, :, None], rows.sequence_ids[:, None, :]
    real = np.broadcast_to((rows.sequence_ids > 0)[:, None, None], attentions.shape[:-1])
    outside = np.broadcast_to(((query > 0) & (query != key))[:, None, None], attentions.shape)
    return real, outside


def _distance(found: Array, expected: Array | np.float32) -> float:
    with np.errstate(invalid="ignore"):  # infinity less infinity: NaN, and refused for it
        return float(np.abs(found - expected).max(initial=0.0))


FIGURE_NAMES = tuple(field.name for field in fields(Figures))
