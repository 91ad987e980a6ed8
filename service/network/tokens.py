"""Bearer tokens: who may call, decided before a request is read."""

import hmac
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from model.errors import SetupError
from service.errors import UnauthenticatedError
from service.metrics import Metrics
from service.network.status import status_of
from service.network.watched import Watched, read_file

# Probes and load balancers have no token.
OPEN_METHODS = "/grpc.health.v1.Health/"
MIN_CHARACTERS = 16
SCHEME = "bearer "


class Tokens:
    """The tokens of a file, kept as hashes: neither a log nor a core dump shows one by accident."""

    def __init__(self, path: Path, reloaded: Callable[[str], None]) -> None:
        self._digests = Watched([path], lambda: read_tokens(path), reloaded)

    def accept(self, token: str) -> bool:
        """Whether it is one of them, in a time that does not depend on how much of it is right."""
        asked = sha256(token.encode("utf-8", "replace")).digest()
        found = False
        for digest in self._digests.get():
            found |= hmac.compare_digest(asked, digest)
        return found


class Door(grpc.aio.ServerInterceptor):
    """Lets in who has a token; everybody else gets one and the same answer, whatever they ask."""

    def __init__(self, tokens: Tokens, metrics: Metrics) -> None:
        self._tokens, self._metrics = tokens, metrics
        self._closed: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._refuse
        )

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        details = handler_call_details
        if details.method.startswith(OPEN_METHODS):
            return await continuation(details)
        if self._tokens.accept(_bearer(details.invocation_metadata)):
            return await continuation(details)
        return self._closed

    async def _refuse(self, _: object, context: Any) -> None:
        status = status_of(UnauthenticatedError())
        self._metrics.refusals.labels(status.reason).inc()
        await context.abort(status.code, status.message, status.metadata)


def read_tokens(path: Path) -> frozenset[bytes]:
    """The hashes of the tokens in a file: one a line, # begins a comment.

    Raises:
        SetupError: there is none, or one that is too short or cannot be sent; by line number.
    """
    digests = set()
    data = read_file(path, "tokens file")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise SetupError(
                f"line {number} of the tokens file {path} is no token: use ASCII without spaces"
            )
        if len(token) < MIN_CHARACTERS:
            raise SetupError(
                f"the token in line {number} of {path} has under {MIN_CHARACTERS} characters: "
                "make one with `openssl rand -hex 32`"
            )
        digests.add(sha256(token.encode()).digest())
    if not digests:
        raise SetupError(f"the tokens file {path} has no token: nobody could call")
    return frozenset(digests)


def _bearer(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    for key, value in metadata or ():
        if key == "authorization" and isinstance(value, str):
            if value[: len(SCHEME)].lower() == SCHEME:
                return value[len(SCHEME) :].strip()
            return ""
    return ""
