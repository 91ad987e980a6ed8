"""What the sync and the asyncio client share about the line to a server."""

import math
from dataclasses import dataclass

import grpc

from heedful.errors import DeadlineExceededError, InvalidArgumentError, RequestError
from heedful.identity import BearerToken, Tls

DEFAULT_TARGET = "localhost:50051"
# gRPC refuses answers over 4 MiB unless told otherwise, and attention is often larger; the server
# has a budget of its own, so this only stops a server that has none.
MAX_ANSWER_BYTES = 512 * 2**20

# grpc.health.v1 in the two messages that are needed: "how is the whole server?", which is empty,
# and field 1 = SERVING.
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_WATCH = "/grpc.health.v1.Health/Watch"
WHOLE_SERVER = b""
SERVING = b"\x08\x01"
# Between attempts to watch a server that hangs up at once.
RETRY_SECONDS = 0.1
# For the last question of a wait that was in vain; without a connection it fails at once.
LAST_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where a server is and how to speak to it.

    Attributes:
        target: host:port, or another gRPC name.
        timeout: seconds for each call that names none.
        credentials: for TLS; None speaks plain text.
        token: sent with every call; None sends none.
    """

    target: str
    timeout: float
    credentials: grpc.ChannelCredentials | None
    token: BearerToken | None = None

    @classmethod
    def to(
        cls,
        target: str,
        timeout: float,
        *,
        tls: bool | Tls,
        token: str | None,
        credentials: grpc.ChannelCredentials | None,
    ) -> "Connection":
        """What the clients' settings come to; a ValueError if they cannot be used."""
        if tls and credentials is not None:
            raise ValueError("give tls or credentials, and not both")
        if tls:
            credentials = (Tls() if tls is True else tls).credentials()
        return cls(
            target=target,
            timeout=timeout,
            credentials=credentials,
            token=None if token is None else BearerToken(token),
        )

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every call."""
        return self.token.metadata if self.token else ()

    def __post_init__(self) -> None:
        if not self.target:
            raise ValueError("target must name a server, as in localhost:50051")
        self.seconds(self.timeout)

    def seconds(self, timeout: float | None) -> float:
        """The time a call may take: its own or the client's; never without an end."""
        seconds = self.timeout if timeout is None else timeout
        if not (math.isfinite(seconds) and seconds > 0):
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", f"timeout must be a positive number of seconds, got {seconds}"
            )
        return seconds

    def not_ready(self, seconds: float, why: RequestError | None) -> DeadlineExceededError:
        """What to tell who has waited in vain; why is what a last question came to."""
        cause, reason = (str(why), why.reason) if why else ("it is there and did not serve", "")
        return DeadlineExceededError(
            "DEADLINE_EXCEEDED",
            f"the server at {self.target} was not ready within {seconds:g} s: {cause}",
            reason=reason,
        )

    @property
    def options(self) -> list[tuple[str, int]]:
        return [
            ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
            ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
        ]
