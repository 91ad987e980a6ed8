"""Turns a failed gRPC call into one of this package's errors.

Details ride in the trailing metadata as google.rpc messages. They are described here in the few
fields that are read, so that a client needs no package for them.
"""

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from heedful.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    RequestError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)
from heedful.handshakes import explain, is_no_connection

ERRORS: dict[str, type[RequestError]] = {
    "INVALID_ARGUMENT": InvalidArgumentError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "NOT_FOUND": NotFoundError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "UNAVAILABLE": UnavailableError,
    "INTERNAL": InternalError,
}
DETAILS_KEY = "grpc-status-details-bin"


def request_error(error: grpc.RpcError, target: str) -> RequestError:
    """The error that a caller sees for a failed call, sync or asyncio, to the server at target."""
    code = error.code().name
    reason, retry_after = _rich_details(error.trailing_metadata() or ())
    details = error.details() or ""
    if code == "UNAVAILABLE" and not reason and is_no_connection(details):
        message, reason = explain(details, target)
    else:
        message = _message(code, details, target)
    return error_of(code, message, reason, retry_after)


def error_of(code: str, message: str, reason: str, retry_after: float | None) -> RequestError:
    """The error of a status by its name."""
    kind = ERRORS.get(code, RequestError)
    return kind(code, message, reason=reason, retry_after=retry_after)


def _message(code: str, details: str, target: str) -> str:
    if code == "DEADLINE_EXCEEDED":
        return f"{target} did not answer in time ({details}): give more time with timeout"
    return details or f"{target} answered {code} without a message"


def _rich_details(metadata: Iterable[Any]) -> tuple[str, float | None]:
    reason, retry_after = "", None
    status = next((value for key, value in metadata if key == DETAILS_KEY), b"")
    try:
        for detail in _STATUS.FromString(status).details:
            kind = detail.type_url.rpartition("/")[2]
            if kind == "google.rpc.ErrorInfo":
                reason = _ERROR_INFO.FromString(detail.value).reason
            elif kind == "google.rpc.RetryInfo":
                delay = _RETRY_INFO.FromString(detail.value).retry_delay
                retry_after = delay.seconds + delay.nanos / 1e9
    except DecodeError:
        return "", None  # the plain status still says what is wrong
    return reason, retry_after


def _describe(name: str, field: FieldDescriptorProto) -> DescriptorProto:
    return DescriptorProto(name=name, field=[field])


def _read_messages() -> tuple[Any, Any, Any]:
    """Classes for google.rpc.Status, ErrorInfo and RetryInfo in a pool of their own."""
    one, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    text, message = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
    details = FieldDescriptorProto(
        name="details", number=3, label=many, type=message, type_name=".google.protobuf.Any"
    )
    reason = FieldDescriptorProto(name="reason", number=1, label=one, type=text)
    delay = FieldDescriptorProto(
        name="retry_delay", number=1, label=one, type=message, type_name=".google.protobuf.Duration"
    )
    needed = (any_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR)
    file = FileDescriptorProto(
        name="heedful/statuses.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=[descriptor.name for descriptor in needed],
        message_type=[
            _describe("Status", details),
            _describe("ErrorInfo", reason),
            _describe("RetryInfo", delay),
        ],
    )
    pool = DescriptorPool()
    for descriptor in needed:
        pool.AddSerializedFile(descriptor.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    status, error_info, retry_info = (
        GetMessageClass(pool.FindMessageTypeByName(f"google.rpc.{name}"))
        for name in ("Status", "ErrorInfo", "RetryInfo")
    )
    return status, error_info, retry_info


_STATUS, _ERROR_INFO, _RETRY_INFO = _read_messages()
