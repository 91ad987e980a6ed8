"""The one table from errors to gRPC statuses, with details that programs can read."""

from dataclasses import dataclass
from datetime import timedelta

import grpc
from google.protobuf.any_pb2 import Any as PackedAny
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus

from model.errors import HeedfulError, InvalidInputError
from service.errors import (
    AdminOffError,
    AttentionTooLargeError,
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    DrainingError,
    EngineLostError,
    HopelessDeadlineError,
    InternalFaultError,
    LoadFailedError,
    LoadingError,
    NotFoundError,
    OverloadedError,
    UnauthenticatedError,
    UnsupportedError,
)

DETAILS_KEY = "grpc-status-details-bin"
DOMAIN = "heedful"

# Error -> (code, reason). An error that is not here is a fault of ours.
TABLE: dict[type[HeedfulError], tuple[grpc.StatusCode, str]] = {
    InvalidInputError: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"),
    UnauthenticatedError: (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
    NotFoundError: (grpc.StatusCode.NOT_FOUND, "NOT_SERVED"),
    UnsupportedError: (grpc.StatusCode.FAILED_PRECONDITION, "UNSUPPORTED"),
    AttentionTooLargeError: (grpc.StatusCode.RESOURCE_EXHAUSTED, "ATTENTION_TOO_LARGE"),
    OverloadedError: (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    DeviceMemoryError: (grpc.StatusCode.RESOURCE_EXHAUSTED, "DEVICE_MEMORY"),
    DeadlinePassedError: (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED"),
    HopelessDeadlineError: (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_HOPELESS"),
    LoadFailedError: (grpc.StatusCode.FAILED_PRECONDITION, "LOAD_FAILED"),
    AdminOffError: (grpc.StatusCode.FAILED_PRECONDITION, "ADMIN_OFF"),
    LoadingError: (grpc.StatusCode.UNAVAILABLE, "LOADING"),
    DrainingError: (grpc.StatusCode.UNAVAILABLE, "DRAINING"),
    DeviceLostError: (grpc.StatusCode.UNAVAILABLE, "DEVICE_LOST"),
    EngineLostError: (grpc.StatusCode.UNAVAILABLE, "ENGINE_LOST"),
    InternalFaultError: (grpc.StatusCode.INTERNAL, "INTERNAL_FAULT"),
}


@dataclass(frozen=True, slots=True)
class Status:
    """What goes on the wire instead of an answer.

    Attributes:
        reason: a word for programs and metrics, one per row of the table.
        metadata: trailing metadata with a serialized google.rpc.Status.
    """

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: tuple[tuple[str, bytes], ...]


def status_of(error: HeedfulError) -> Status:
    """The status of an error; one that the table does not know says nothing about itself."""
    if type(error) not in TABLE:
        error = InternalFaultError()
    code, reason = TABLE[type(error)]
    number: int = code.value[0]
    details = RpcStatus(code=number, message=str(error), details=_details(error, reason))
    metadata = ((DETAILS_KEY, details.SerializeToString()),)
    return Status(code, reason, str(error), metadata)


def _details(error: HeedfulError, reason: str) -> list[PackedAny]:
    info = ErrorInfo(reason=reason, domain=DOMAIN)
    details: list[Message] = [info]
    if isinstance(error, AttentionTooLargeError):
        info.metadata["needed_bytes"] = str(error.needed_bytes)
        info.metadata["allowed_bytes"] = str(error.allowed_bytes)
    if isinstance(error, OverloadedError):
        retry = RetryInfo()
        retry.retry_delay.FromTimedelta(timedelta(seconds=error.retry_after))
        details.append(retry)
    packed = [PackedAny() for _ in details]
    for box, detail in zip(packed, details, strict=True):
        box.Pack(detail)
    return packed
