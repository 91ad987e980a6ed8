"""Traces the encoder into ONNX: what goes in and out of each graph, said as data.

Letters: R rows, T row length, B texts, L layers, H heads, C classes.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from export.errors import ExportError
from model.bundle import ATTENTION_GRAPH, CLASSIFY_GRAPH
from model.config import EncoderConfig
from model.encoder import EncoderClassifier

OPSET = 20

# A name is an axis of any size; a number is read off the config under that name.
SHAPES: dict[str, tuple[str, ...]] = {
    "input_ids": ("rows", "row_length"),
    "position_ids": ("rows", "row_length"),
    "sequence_ids": ("rows", "row_length"),
    "cls_index": ("texts",),
    "head_gate": ("num_hidden_layers", "num_attention_heads"),
    "logits": ("texts", "num_labels"),
    "attentions": (
        "rows",
        "num_hidden_layers",
        "num_attention_heads",
        "row_length",
        "row_length",
    ),
}
# The tracer may take a size of 0 or 1 for a constant, and equal sizes for one axis, silently.
EXAMPLE_SIZES = {"rows": 3, "row_length": 7, "texts": 5}


@dataclass(frozen=True)
class Graph:
    """One ONNX file: inputs in the order of the encoder's forward, outputs in order."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


CLASSIFY = Graph(
    CLASSIFY_GRAPH, ("input_ids", "position_ids", "sequence_ids", "cls_index"), ("logits",)
)
ATTENTION = Graph(ATTENTION_GRAPH, (*CLASSIFY.inputs, "head_gate"), ("logits", "attentions"))
GRAPHS = (CLASSIFY, ATTENTION)


class _Traced(nn.Module):
    """The encoder with exactly the outputs of a graph.

    Both graphs write attention out, since the fused form comes apart into more nodes than that.
    What a graph does not return is not computed: the tracer drops it.
    """

    def __init__(self, encoder: EncoderClassifier, graph: Graph) -> None:
        super().__init__()
        self.encoder, self.num_outputs = encoder, len(graph.outputs)

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        sequence_ids: Tensor,
        cls_index: Tensor,
        head_gate: Tensor | None = None,
    ) -> tuple[Tensor | None, ...]:
        outputs = self.encoder(
            input_ids, position_ids, sequence_ids, cls_index, head_gate, with_attentions=True
        )
        return tuple(outputs[: self.num_outputs])


def trace(encoder: EncoderClassifier, graph: Graph) -> onnx.ModelProto:
    """The encoder as one ONNX graph with its weights inside.

    Raises:
        ExportError: an axis that must be free came out fixed.
    """
    module = _Traced(encoder, graph).eval()
    with _quiet():
        program = torch.onnx.export(
            module,
            tuple(_example(name, encoder.config) for name in graph.inputs),
            dynamo=True,
            input_names=graph.inputs,
            output_names=graph.outputs,
            dynamic_shapes={name: _free_axes(name) for name in graph.inputs},
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None  # noqa: S101 - for the type checker: dynamo always returns one
    model: onnx.ModelProto = program.model_proto
    _forget_the_machine(model)
    _check_shapes(model, graph, encoder.config)
    return model


def sizes_of(name: str, config: EncoderConfig) -> tuple[str | int, ...]:
    """The shape of an input or output: names for free axes, numbers for fixed ones."""
    return tuple(
        axis if axis in EXAMPLE_SIZES else int(getattr(config, axis)) for axis in SHAPES[name]
    )


def _free_axes(name: str) -> dict[int, str]:
    return {place: axis for place, axis in enumerate(SHAPES[name]) if axis in EXAMPLE_SIZES}


def _example(name: str, config: EncoderConfig) -> Tensor:
    shape = [
        EXAMPLE_SIZES[size] if isinstance(size, str) else size for size in sizes_of(name, config)
    ]
    if name == "head_gate":
        return torch.ones(shape)
    return torch.zeros(shape, dtype=torch.int64)


def _forget_the_machine(model: onnx.ModelProto) -> None:
    """Drops stack traces, which hold the paths of whoever exported."""
    graph = model.graph
    for parts in (graph.node, graph.input, graph.output, graph.value_info, graph.initializer):
        part: Any
        for part in parts:
            part.doc_string = ""
            del part.metadata_props[:]
    del graph.metadata_props[:]


def _check_shapes(model: onnx.ModelProto, graph: Graph, config: EncoderConfig) -> None:
    values = {value.name: value for value in (*model.graph.input, *model.graph.output)}
    if list(values) != [*graph.inputs, *graph.outputs]:
        raise ExportError(f"{graph.file} came out with the inputs and outputs {list(values)}")
    for name, value in values.items():
        axes = value.type.tensor_type.shape.dim
        found = tuple(axis.dim_param or axis.dim_value for axis in axes)
        if found != sizes_of(name, config):
            raise ExportError(
                f"{graph.file}: {name} came out as {found} and not as {sizes_of(name, config)}: "
                "this torch traces the encoder differently; use the release in constraints.txt"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporter's notes about itself off the user's terminal."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
