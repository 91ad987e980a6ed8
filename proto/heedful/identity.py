"""Who we are to a server, and whom we trust to be it: certificates and a token."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import grpc

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Certificates, as PEM files.

    Attributes:
        ca_cert: who may have signed the server's certificate; None trusts the authorities that
            come with gRPC.
        cert: our own certificate, for a server that asks for one.
        key: its key.
    """

    ca_cert: PathLike | None = None
    cert: PathLike | None = None
    key: PathLike | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate: give both")

    def credentials(self) -> grpc.ChannelCredentials:
        """What a channel takes; a ValueError if a file cannot be read."""
        ca_cert, key, cert = map(_read, (self.ca_cert, self.key, self.cert))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:  # gRPC would only find out when connecting, and say little
            if ca_cert is not None:
                context.load_verify_locations(cadata=ca_cert.decode("ascii", "replace"))
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, password="")
        except (ssl.SSLError, ValueError):
            names = [os.fspath(path) for path in (self.ca_cert, self.cert, self.key) if path]
            raise ValueError(
                f"{' and '.join(names)} cannot be used: give PEM files, and the key that belongs "
                "to the certificate, without a password"
            ) from None
        return grpc.ssl_channel_credentials(ca_cert, key, cert)


@dataclass(frozen=True)
class BearerToken:
    """A bearer token; it is shown nowhere."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        value = self.value
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("a token is printable ASCII without spaces")

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.value}"),)


def read_token(path: PathLike) -> str:
    """The first token of a file; lines that begin with # are comments.

    Raises:
        ValueError: the file cannot be read, or has none.
    """
    for line in (_read(path) or b"").decode("utf-8", "replace").splitlines():
        token = line.strip()
        if token and not token.startswith("#"):
            return token
    raise ValueError(f"{path} has no token")


def _read(path: PathLike | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
