"""Tensors as bytes and back, whatever a caller claims about them."""

import tracemalloc

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.oip import open_inference_pb2 as oip
from model.errors import InvalidInputError
from service.oip.tensors import OutputTensor, add_output, read_bytes, read_inputs, write_bytes

INTEGERS = {"INT64": "<i8", "INT32": "<i4"}
SIZES = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def request(name: str, datatype: str, shape, raw: bytes) -> oip.ModelInferRequest:
    made = oip.ModelInferRequest(raw_input_contents=[raw])
    made.inputs.add(name=name, datatype=datatype, shape=shape)
    return made


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_byte_strings_survive_the_wire_zeros_at_their_ends_too(elements) -> None:
    assert read_bytes(write_bytes(elements), len(elements), "text") == elements


@given(st.sampled_from(list(INTEGERS)), st.integers(1, 5), st.integers(1, 7), st.data())
def test_integers_survive_the_wire(datatype, rows, columns, data) -> None:
    dtype = np.dtype(INTEGERS[datatype])
    limits = np.iinfo(dtype)
    numbers = st.integers(int(limits.min), int(limits.max))
    size = rows * columns
    values = data.draw(st.lists(numbers, min_size=size, max_size=size))
    raw = np.array(values, dtype).tobytes()
    (tensor,) = read_inputs(request("input_ids", datatype, [rows, columns], raw))
    assert (tensor.shape, tensor.elements.tolist()) == ((rows, columns), values)


@settings(max_examples=300)
@given(
    st.sampled_from(["BYTES", "INT64", "INT32", "FP32", "", "bytes"]),
    st.lists(st.one_of(st.integers(-2, 4), SIZES), max_size=7),
    st.binary(max_size=64),
    st.booleans(),
)
def test_any_claim_is_refused_or_true(datatype, shape, data, typed) -> None:
    made = request("text", datatype, shape, data)
    if typed:
        del made.raw_input_contents[:]
        made.inputs[0].contents.bytes_contents.append(data)
    try:
        (tensor,) = read_inputs(made)
    except InvalidInputError:
        return
    assert len(tensor.elements) == np.prod(tensor.shape, dtype=object)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_that_is_read_or_refused(data) -> None:
    try:
        made = oip.ModelInferRequest.FromString(data)
    except DecodeError:
        return  # the border tells the caller
    try:
        read_inputs(made)
    except InvalidInputError:
        return


@pytest.mark.parametrize("datatype", ["BYTES", "INT64"])
@pytest.mark.parametrize("shape", [[2**40], [2**31, 2**31], [2**62, 2**62, 2**62]])
def test_a_claimed_size_costs_no_memory(datatype, shape) -> None:
    made = request("text", datatype, shape, b"\xff\xff\xff\x3f" * 4)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError):
            read_inputs(made)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.lists(st.floats(width=32), max_size=300))
def test_typed_floats_are_those_of_the_raw_bytes(values) -> None:
    array = np.array(values, "<f4")
    response = oip.ModelInferResponse()
    add_output(response, OutputTensor("logits", array.shape, array.tobytes()), typed=True)
    assert not response.raw_output_contents
    found = np.array(response.outputs[0].contents.fp32_contents, "<f4")
    np.testing.assert_array_equal(found, array)
