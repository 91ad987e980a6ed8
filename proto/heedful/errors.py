"""What a call to a server can end with, one class for each thing a caller can do about it.

HeedfulError
├── AnswerError                 the server's answer contradicts the contract: versions differ?
└── RequestError                the call did not succeed; code, message, reason, retry_after
    ├── InvalidArgumentError    change the input or the option (also a ValueError)
    ├── UnauthenticatedError    give the client a token that the server knows
    ├── NotFoundError           ask for a model and version that is served
    ├── FailedPreconditionError ask for something else: this bundle or backend cannot do it
    ├── ResourceExhaustedError  full: try again after retry_after; or ask for a smaller answer
    ├── DeadlineExceededError   give more time, or ask less at once
    ├── UnavailableError        nothing answers there, or it is starting or draining
    └── InternalError           the server's own fault; its log has the cause
"""


class HeedfulError(Exception):
    """The base of every error this package raises on purpose."""


class AnswerError(HeedfulError):
    """An answer whose parts do not fit together."""


class RequestError(HeedfulError):
    """A call that did not succeed.

    Attributes:
        code: the gRPC status by name, as "INVALID_ARGUMENT".
        message: what is wrong and what to do.
        reason: the same for programs, from google.rpc.ErrorInfo; empty if the server gave none.
            HANDSHAKE_FAILED is of this package: somebody is there, and no call came through.
        retry_after: seconds to wait before trying again, from google.rpc.RetryInfo, or None.
    """

    def __init__(
        self, code: str, message: str, *, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by args, which leave out what a process pool's caller wants to see.
        return _rebuild, (type(self), self.code, self.message, self.reason, self.retry_after)


def _rebuild(
    kind: type[RequestError], code: str, message: str, reason: str, retry_after: float | None
) -> RequestError:
    return kind(code, message, reason=reason, retry_after=retry_after)


class InvalidArgumentError(RequestError, ValueError):
    """An input or option that cannot be used as given."""


class UnauthenticatedError(RequestError):
    """The server asks for a token and was shown none that it knows."""


class NotFoundError(RequestError):
    """A model or version that is not served."""


class FailedPreconditionError(RequestError):
    """Something this bundle or backend cannot do."""


class ResourceExhaustedError(RequestError):
    """The server is full, or the answer would be larger than allowed: see reason."""


class DeadlineExceededError(RequestError):
    """The answer did not come in time."""


class UnavailableError(RequestError):
    """Nothing answers there, or the server is starting or draining."""


class InternalError(RequestError):
    """A fault of the server's own."""
