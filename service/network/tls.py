"""Certificates: read, checked before anybody relies on them, and renewed without a restart."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from model.errors import SetupError
from service.network.watched import Watched, read_file


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; with client_ca, callers must show a certificate that it has signed."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def read(self) -> "grpc.ServerCertificateConfiguration":
        """The certificates, fit to be used.

        Raises:
            SetupError: a file is missing or no PEM, or the key is another certificate's.
        """
        contents = self._contents()
        self._check(contents)
        if self._contents() != contents:
            raise SetupError(f"{self.cert} and {self.key} are being written: replace both at once")
        cert, key, client_ca = contents
        return grpc.ssl_server_certificate_configuration([(key, cert)], client_ca or None)

    def _contents(self) -> tuple[bytes, bytes, bytes]:
        client_ca = b""
        if self.client_ca is not None:
            client_ca = read_file(self.client_ca, "client CA")
        return read_file(self.cert, "certificate"), read_file(self.key, "key"), client_ca

    def _check(self, contents: tuple[bytes, bytes, bytes]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # An empty password, because OpenSSL would ask the terminal for one.
            context.load_cert_chain(self.cert, self.key, password="")
        except ssl.SSLError as error:
            raise SetupError(self._why(error)) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(cadata=contents[2].decode("ascii", "replace"))
            except (ssl.SSLError, ValueError):
                raise SetupError(
                    f"the client CA {self.client_ca} holds no PEM certificate"
                ) from None

    def _why(self, error: ssl.SSLError) -> str:
        if error.reason == "KEY_VALUES_MISMATCH":
            return f"the key {self.key} does not belong to the certificate {self.cert}"
        return (
            f"the certificate {self.cert} and the key {self.key} cannot be used "
            f"({error.reason or error}): give PEM files, the key without a password"
        )


def server_credentials(files: TlsFiles, reloaded: Callable[[str], None]) -> grpc.ServerCredentials:
    """Credentials that follow the files; each new connection gets what they hold then.

    Raises:
        SetupError: the files cannot be used.
    """
    paths = [path for path in (files.cert, files.key, files.client_ca) if path is not None]
    watched = Watched(paths, files.read, reloaded)
    return grpc.dynamic_ssl_server_credentials(
        watched.get(), watched.get, require_client_authentication=files.client_ca is not None
    )
