"""Writes an ONNX graph node by node, in the order the nodes run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]
# What a node reads: another node's output by its name, or a constant by its value.
Value = str | Array | np.generic

IR_VERSION = 10  # the one of opset 20; onnx would write its newest
MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators


class GraphWriter:
    """Collects nodes and constants; equal constants are held once."""

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}

    def add(
        self, op_type: str, *inputs: Value, output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Adds a node with one output and returns that output's name."""
        names = [output or f"{op_type}_{len(self._nodes)}"]
        self._append(op_type, inputs, names, domain, attributes)
        return names[0]

    def add_split(self, value: Value, parts: int, axis: int) -> list[str]:
        """Adds a Split into equal parts and returns their names."""
        names = [f"Split_{len(self._nodes)}_{part}" for part in range(parts)]
        self._append("Split", (value,), names, "", {"axis": axis, "num_outputs": parts})
        return names

    def add_range(self, length: str) -> str:
        """Adds 0, 1, ... below a tensor of one number."""
        return self.add("Range", np.int64(0), self.add("Squeeze", length), np.int64(1))

    def finish(
        self,
        name: str,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
    ) -> onnx.ModelProto:
        """The whole model."""
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, name, inputs, outputs, constants)
        opsets = [helper.make_opsetid("", self._opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="heedful"
        )

    def _append(
        self,
        op_type: str,
        inputs: Sequence[Value],
        outputs: list[str],
        domain: str,
        attributes: dict[str, Any],
    ) -> None:
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        self._nodes.append(helper.make_node(op_type, names, outputs, domain=domain, **attributes))

    def _constant(self, value: Array | np.generic) -> str:
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = numpy_helper.from_array(array, name)
        return self._constants[key].name


def axes(*values: int) -> npt.NDArray[np.int64]:
    """Axes or sizes as operators take them."""
    return np.array(values, dtype=np.int64)
