"""Requests of the Open Inference Protocol as clients write them, and answers as they read them."""

from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest

from heedful.oip import open_inference_pb2 as oip
from service.oip.tensors import read_bytes, write_bytes
from tests.service.calls import TIMEOUT, Refusal, refusal_of


@dataclass(frozen=True)
class Peer:
    """A client of the protocol."""

    stub: Any

    def infer(self, request: oip.ModelInferRequest) -> oip.ModelInferResponse:
        return self.stub.ModelInfer(request, timeout=TIMEOUT)

    def refused(self, request: Any, method: str = "ModelInfer") -> Refusal:
        with pytest.raises(grpc.RpcError) as refused:
            getattr(self.stub, method)(request, timeout=TIMEOUT)
        return refusal_of(refused.value)


def raw_texts(*texts: str, outputs=(), shape=None, **fields) -> oip.ModelInferRequest:
    """A request as most clients write it: raw."""
    request = oip.ModelInferRequest(**fields)
    shape = [len(texts)] if shape is None else shape
    request.inputs.add(name="text", datatype="BYTES", shape=shape)
    request.raw_input_contents.append(write_bytes([text.encode() for text in texts]))
    for name in outputs:
        request.outputs.add(name=name)
    return request


def raw_ids(rows, *, dtype="<i8", outputs=(), **fields) -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(**fields)
    array = np.array(rows, dtype)
    datatype = {8: "INT64", 4: "INT32"}[array.itemsize]
    request.inputs.add(name="input_ids", datatype=datatype, shape=array.shape)
    request.raw_input_contents.append(array.tobytes())
    for name in outputs:
        request.outputs.add(name=name)
    return request


def tensors(response: oip.ModelInferResponse) -> dict[str, Any]:
    """Outputs of a raw answer by name, in their order: arrays, or lists of byte strings."""
    assert len(response.raw_output_contents) == len(response.outputs)
    found: dict[str, Any] = {}
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        assert not output.HasField("contents")
        count = int(np.prod(output.shape))
        if output.datatype == "BYTES":
            found[output.name] = np.array(read_bytes(raw, count, output.name), object).reshape(
                output.shape
            )
        else:
            found[output.name] = np.frombuffer(raw, "<f4").reshape(output.shape)
    return found
