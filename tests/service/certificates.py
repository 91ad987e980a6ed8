"""Certificates made for one test: an authority, a server's and a caller's."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pem:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates that are good for localhost, for a day."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        cert = _builder(self._name, self._name, self._key.public_key())
        cert = cert.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.pem = self._write(name, cert, self._key)

    def issue(self, name: str) -> Pem:
        """A certificate and its key in files called after the name."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        cert = _builder(_name(name), self._name, key.public_key())
        cert = cert.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return self._write(name, cert, key)

    def _write(self, name: str, builder: x509.CertificateBuilder, key) -> Pem:
        pem = Pem(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        cert = builder.sign(self._key, hashes.SHA256())
        pem.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        pem.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pem

    def credentials(self, caller: Pem | None = None) -> grpc.ChannelCredentials:
        """For a channel that trusts this authority and shows a caller's certificate."""
        shown = (caller.key.read_bytes(), caller.cert.read_bytes()) if caller else (None, None)
        return grpc.ssl_channel_credentials(self.pem.cert.read_bytes(), *shown)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )
