"""Calls over plain stubs, and what a refusal says to programs."""

from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from heedful.v1 import classifier_pb2 as pb

TIMEOUT = 20


@dataclass(frozen=True)
class Refusal:
    """A status with its details unpacked; retry_seconds is None without RetryInfo."""

    code: grpc.StatusCode
    message: str
    reason: str
    metadata: dict[str, str]
    retry_seconds: float | None


def refusal_of(error: grpc.RpcError) -> Refusal:
    details = dict(error.trailing_metadata() or ())
    status = Status.FromString(details["grpc-status-details-bin"])
    info, retry = ErrorInfo(), RetryInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "heedful"
    assert (status.code, status.message) == (error.code().value[0], error.details())
    has_retry = len(status.details) > 1 and status.details[1].Unpack(retry)
    seconds = retry.retry_delay.ToTimedelta().total_seconds() if has_retry else None
    return Refusal(error.code(), status.message, info.reason, dict(info.metadata), seconds)


@dataclass(frozen=True)
class Caller:
    """A client as protoc makes it."""

    stub: Any
    channel: grpc.Channel

    def classify(self, *texts: str, **fields) -> pb.ClassifyResponse:
        inputs = [pb.Input(text=text) for text in texts]
        return self.stub.Classify(pb.ClassifyRequest(inputs=inputs, **fields), timeout=TIMEOUT)

    def refused(self, request: Message | bytes, method: str = "Classify") -> Refusal:
        """The refusal of a request; the test fails if it is answered."""
        call = self.channel.unary_unary(f"/heedful.v1.Classifier/{method}")
        data = request if isinstance(request, bytes) else request.SerializeToString()
        with pytest.raises(grpc.RpcError) as refused:
            call(data, timeout=TIMEOUT)
        return refusal_of(refused.value)


def texts(*texts: str, **fields) -> pb.ClassifyRequest:
    return pb.ClassifyRequest(inputs=[pb.Input(text=text) for text in texts], **fields)
