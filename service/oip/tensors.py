"""Tensors of the Open Inference Protocol: bytes or typed contents to elements, and back.

Whatever a caller claims (shapes, lengths) is held against the bytes that came before anything of
that size is made.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.oip import open_inference_pb2 as oip
from model.errors import InvalidInputError
from service.errors import quoted

# Nothing here has more axes than attentions, [text, layer, head, query, key].
MAX_AXES = 5
INTEGERS: dict[str, np.dtype[np.integer[Any]]] = {
    "INT64": np.dtype("<i8"),
    "INT32": np.dtype("<i4"),
}
# KServe's client repeats the length of raw contents; their own is what counts.
SAID_TWICE = {"binary_data_size"}
TYPED_FIELDS = {"BYTES": "bytes_contents", "INT64": "int64_contents", "INT32": "int_contents"}
_LENGTH = struct.Struct("<I")
# Field 6 of InferTensorContents, length-delimited.
_FP32_KEY = b"\x32"

Integers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class InputTensor:
    """One input as it came; elements in row-major order, as many as the shape says."""

    name: str
    shape: tuple[int, ...]
    elements: list[bytes] | Integers


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One output: a list of byte strings is BYTES, anything else little-endian FP32."""

    name: str
    shape: tuple[int, ...]
    elements: list[bytes] | bytes


def is_typed(request: oip.ModelInferRequest) -> bool:
    """Whether the caller writes tensors as typed contents, and so is to be answered in them."""
    return not request.raw_input_contents and any(
        tensor.HasField("contents") for tensor in request.inputs
    )


def read_inputs(request: oip.ModelInferRequest) -> list[InputTensor]:
    """The request's input tensors in their order.

    Raises:
        InvalidInputError: a tensor is not what its shape and datatype say.
    """
    raws: Sequence[bytes] = request.raw_input_contents
    if not raws:
        return [_read_typed(tensor) for tensor in request.inputs]
    if len(raws) != len(request.inputs):
        raise InvalidInputError(
            f"there are {len(raws)} raw_input_contents for {len(request.inputs)} inputs: give one "
            "for each, in their order"
        )
    for tensor in request.inputs:
        if tensor.HasField("contents"):
            raise InvalidInputError(
                f"the input {quoted(tensor.name)} has contents beside raw_input_contents: use one "
                "of the two for all inputs"
            )
    return [_read_raw(tensor, raw) for tensor, raw in zip(request.inputs, raws, strict=True)]


def add_output(response: oip.ModelInferResponse, tensor: OutputTensor, *, typed: bool) -> None:
    """Appends a tensor: raw, unless the request was typed.

    Raw for every output or for none: common clients count raw entries to find an output's bytes.
    """
    elements = tensor.elements
    is_bytes = isinstance(elements, list)
    added = response.outputs.add(
        name=tensor.name, datatype="BYTES" if is_bytes else "FP32", shape=tensor.shape
    )
    if not typed:
        response.raw_output_contents.append(
            write_bytes(elements) if isinstance(elements, list) else elements
        )
    elif isinstance(elements, list):
        added.contents.bytes_contents.extend(elements)
    else:
        # A packed field is its bytes with a length before them. Extending it number by number
        # takes a hundred times as long: half a second for the attention of one text.
        added.contents.MergeFromString(_FP32_KEY + _varint(len(elements)) + elements)


def read_bytes(raw: bytes, count: int, name: str) -> list[bytes]:
    """Splits a raw BYTES tensor into its count elements."""
    elements: list[bytes] = []
    position, end = 0, len(raw)
    if count * _LENGTH.size > end:
        raise _wrong_size(name, f"{count} elements with their lengths do not fit into {end} bytes")
    for _ in range(count):
        if position + _LENGTH.size > end:
            raise _wrong_size(name, f"its bytes end before element {len(elements)}")
        (length,) = _LENGTH.unpack_from(raw, position)
        position += _LENGTH.size
        if length > end - position:
            raise _wrong_size(
                name,
                f"element {len(elements)} claims {length} bytes and {end - position} are left",
            )
        elements.append(raw[position : position + length])
        position += length
    if position != end:
        raise _wrong_size(name, f"{end - position} bytes are left over after {count} elements")
    return elements


def write_bytes(elements: Sequence[bytes]) -> bytes:
    """A raw BYTES tensor."""
    return b"".join(part for data in elements for part in (_LENGTH.pack(len(data)), data))


def _read_raw(tensor: oip.ModelInferRequest.InferInputTensor, raw: bytes) -> InputTensor:
    shape, count = _shape_of(tensor)
    if tensor.datatype == "BYTES":
        return InputTensor(tensor.name, shape, read_bytes(raw, count, tensor.name))
    dtype = INTEGERS[tensor.datatype]
    if len(raw) != count * dtype.itemsize:
        raise _wrong_size(
            tensor.name,
            f"shape {list(shape)} of {tensor.datatype} takes {count * dtype.itemsize} bytes and "
            f"{len(raw)} came",
        )
    return InputTensor(tensor.name, shape, np.frombuffer(raw, dtype))


def _read_typed(tensor: oip.ModelInferRequest.InferInputTensor) -> InputTensor:
    shape, count = _shape_of(tensor)
    field = TYPED_FIELDS[tensor.datatype]
    for other, _ in tensor.contents.ListFields():
        if other.name != field:
            raise InvalidInputError(
                f"the input {quoted(tensor.name)} of datatype {tensor.datatype} has "
                f"{other.name}: put its elements into {field}"
            )
    elements = getattr(tensor.contents, field)
    if len(elements) != count:
        raise _wrong_size(
            tensor.name, f"shape {list(shape)} takes {count} elements and {len(elements)} came"
        )
    if tensor.datatype == "BYTES":
        return InputTensor(tensor.name, shape, list(elements))
    return InputTensor(tensor.name, shape, np.array(elements, INTEGERS[tensor.datatype]))


def _shape_of(tensor: oip.ModelInferRequest.InferInputTensor) -> tuple[tuple[int, ...], int]:
    """The shape and its number of elements, of any size: nothing is made of it here."""
    name = quoted(tensor.name)
    for parameter in tensor.parameters:
        if parameter not in SAID_TWICE:
            raise InvalidInputError(
                f"the input {name} has the parameter {quoted(parameter)}, which is not known here: "
                "send its elements in the request, without parameters"
            )
    if tensor.datatype not in TYPED_FIELDS:
        raise InvalidInputError(
            f"the input {name} has datatype {quoted(tensor.datatype)}: send BYTES for text, INT64 "
            "for token ids"
        )
    if len(tensor.shape) > MAX_AXES:
        raise InvalidInputError(
            f"the input {name} has {len(tensor.shape)} axes: at most 2 are taken"
        )
    count = 1
    for size in tensor.shape:
        if size < 0:
            raise InvalidInputError(
                f"the input {name} has an axis of length {size}: say how long it really is"
            )
        count *= size
    return tuple(tensor.shape), count


def _wrong_size(name: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"the input {quoted(name)} is not what its shape says: {why}")


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)
