"""What can go wrong while serving, named by who must act; status codes are in status.py.

HeedfulError
├── UnauthenticatedError   the caller: show a token that is known here
├── NotFoundError          the caller: ask for what is served
├── UnsupportedError       the caller: this bundle or backend cannot do it
├── AttentionTooLargeError the caller: ask for less
├── OverloadedError        the caller: come back a little later
├── DeviceMemoryError      the caller: send a shorter text; the operator: more memory
├── DeadlinePassedError    the caller: allow more time
├── HopelessDeadlineError  the caller: allow more time, or ask when there is less to do
├── LoadFailedError        the operator: mend the bundle
├── AdminOffError          the operator: allow it
├── LoadingError           nobody: wait until the server is ready
├── DrainingError          nobody: another server answers
├── DeviceLostError        nobody: another server answers
└── InternalFaultError     us: the log has the cause
"""

from collections.abc import Sequence

from model.errors import HeedfulError

LISTED_NAMES = 8


class UnauthenticatedError(HeedfulError):
    """The caller has not shown who it is; the message is the same whatever was asked."""

    def __init__(self) -> None:
        super().__init__("a valid bearer token is needed: send one as authorization metadata")


class NotFoundError(HeedfulError):
    """The caller asked for a model or version that is not served."""

    def __init__(self, kind: str, asked: str, *served: str) -> None:
        super().__init__(
            f"the {kind} {quoted(asked)} is not served here: ask for {listed(served)}, "
            f"or leave the {kind} empty"
        )


class UnsupportedError(HeedfulError):
    """This bundle or backend cannot do what was asked."""


class AttentionTooLargeError(HeedfulError):
    """The attention asked for is over the answer's byte budget."""

    def __init__(self, needed_bytes: int, allowed_bytes: int) -> None:
        super().__init__(
            f"this attention would take {needed_bytes} bytes and an answer may hold "
            f"{allowed_bytes}: select fewer layers, heads or queries, average the heads, or use a "
            "smaller encoding (float16 halves it, uint8 quarters it)"
        )
        self.needed_bytes, self.allowed_bytes = needed_bytes, allowed_bytes


class OverloadedError(HeedfulError):
    """The server has no room for this request now.

    Attributes:
        retry_after: seconds until it is worth asking again.
    """

    def __init__(self, what: str, limit: float, retry_after: float) -> None:
        super().__init__(
            f"the server is full: at most {limit} {what} may wait; "
            f"try again in about {retry_after:.2g} seconds"
        )
        self.retry_after = retry_after


class DeadlinePassedError(HeedfulError):
    """The caller's deadline passed before there was an answer."""

    def __init__(self, stage: str) -> None:
        super().__init__(f"the deadline passed while the request was {stage}: allow more time")
        self.stage = stage


class HopelessDeadlineError(HeedfulError):
    """The caller's deadline would pass before there could be an answer."""

    def __init__(self, needed: float, left: float) -> None:
        super().__init__(
            f"an answer would take about {needed:.2g} seconds and the deadline leaves "
            f"{max(left, 0.0):.2g}: allow more time, or ask again when there is less to do"
        )


class LoadFailedError(HeedfulError):
    """A version does not load; whatever answered before still does."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the model {quoted(name)} was not loaded, nothing has changed: {reason}")


class AdminOffError(HeedfulError):
    """Changing models by call is not allowed on this server."""

    def __init__(self) -> None:
        super().__init__(
            "this server's models cannot be changed by calls: start it with --allow-admin, "
            "or put a new version into its --models folder"
        )


class LoadingError(HeedfulError):
    """The model is not ready yet."""

    def __init__(self) -> None:
        super().__init__("the server is loading its model: wait until its health is SERVING")


class DrainingError(HeedfulError):
    """The server is stopping."""

    def __init__(self) -> None:
        super().__init__("the server is stopping and takes no new work: ask another one")


class DeviceMemoryError(HeedfulError):
    """A text does not fit into the device's memory even alone."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(
            f"a text of {num_tokens} tokens does not fit into the device's memory: send a shorter "
            "one, or ask for no attention"
        )


class DeviceLostError(HeedfulError):
    """The device computes no more until the process is started anew, which is about to happen."""

    def __init__(self) -> None:
        super().__init__("the server's device has failed and the server ends: ask another one")


class EngineLostError(HeedfulError):
    """An engine's thread has ended, which it never should, and the process ends with it."""

    def __init__(self) -> None:
        super().__init__("an engine of the server has ended and the server ends: ask another one")


class InternalFaultError(HeedfulError):
    """The server failed; what happened is in the log and not in the message."""

    def __init__(self) -> None:
        super().__init__("the server failed on this request; its log says why")


def quoted(name: str, limit: int = 40) -> str:
    """A caller's word for a message, cut so that it fits into a status."""
    return repr(name if len(name) <= limit else name[:limit] + "…")


def listed(names: Sequence[str]) -> str:
    """Names for a message: 'a', 'b' or 'c', and how many more."""
    shown = [quoted(name) for name in names[:LISTED_NAMES]]
    if len(names) > LISTED_NAMES:
        shown.append(f"{len(names) - LISTED_NAMES} more")
    return " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else "nothing"
