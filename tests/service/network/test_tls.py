"""TLS, certificates of callers, and renewal without a restart."""

import os
import socket
import ssl

import grpc
import pytest

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.errors import SetupError
from service.config import ServerConfig
from service.network import watched
from service.network.tls import TlsFiles
from tests.service.calls import TIMEOUT, texts
from tests.service.certificates import Authority, Pem
from tests.service.network.test_streams import until


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def serve(start_server, tiny_bundle, engine):
    servers = []

    def start(pem: Pem, **settings):
        server = start_server(
            tiny_bundle,
            load=lambda bundle, config: engine,
            tls_cert=str(pem.cert),
            tls_key=str(pem.key),
            **settings,
        )
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def answers(address: str, credentials: grpc.ChannelCredentials) -> bool:
    """Whether a call is answered; False if the connection is refused."""
    with grpc.secure_channel(address, credentials) as channel:
        code = ClassifierStub(channel).Classify.future(texts("kind"), timeout=TIMEOUT).code()
    assert code in {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    return code is grpc.StatusCode.OK


def test_a_call_over_tls_is_answered_and_plain_text_is_not(serve, authority) -> None:
    server = serve(authority.issue("server"))
    assert answers(server.address, authority.credentials())
    with grpc.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            ClassifierStub(channel).GetModel(pb.GetModelRequest(), timeout=TIMEOUT)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_caller_that_trusts_another_authority_does_not_connect(
    serve, authority, tmp_path
) -> None:
    server = serve(authority.issue("server"))
    assert not answers(server.address, Authority(tmp_path / "other").credentials())


def test_with_a_client_ca_only_callers_it_has_signed_get_in(serve, authority, tmp_path) -> None:
    callers, strangers = Authority(tmp_path / "callers"), Authority(tmp_path / "strangers")
    server = serve(authority.issue("server"), tls_client_ca=str(callers.pem.cert))
    assert answers(server.address, authority.credentials(callers.issue("caller")))
    assert not answers(server.address, authority.credentials(strangers.issue("stranger")))
    assert not answers(server.address, authority.credentials())
    assert answers(server.address, authority.credentials(callers.issue("another")))


def served_certificate(address: str) -> str:
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as line:
        return ssl.DER_cert_to_PEM_cert(line.getpeercert(binary_form=True))


def reloads(server, outcome: str) -> float:
    labels = {"file": "tls", "outcome": outcome}
    registry = server.server.metrics.registry
    return registry.get_sample_value("heedful_file_reloads_total", labels) or 0.0


def test_a_renewed_certificate_is_served_without_a_restart(serve, authority) -> None:
    pem = authority.issue("server")
    server = serve(pem)
    before = served_certificate(server.address)
    with grpc.secure_channel(server.address, authority.credentials()) as channel:
        stub = ClassifierStub(channel)
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results
        authority.issue("server")
        until(lambda: served_certificate(server.address) != before)
        assert served_certificate(server.address).split() == pem.cert.read_text().split()
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results, "open lines go on"
    assert answers(server.address, authority.credentials())
    assert reloads(server, "taken") == 1


def test_a_renewal_that_went_wrong_leaves_the_old_certificate_and_is_counted(
    serve, authority, caplog
) -> None:
    pem = authority.issue("server")
    server = serve(pem)
    before = served_certificate(server.address)
    pem.cert.write_bytes(authority.issue("another").cert.read_bytes())
    until(lambda: served_certificate(server.address) and reloads(server, "refused") == 1)
    assert served_certificate(server.address) == before
    assert "does not belong to the certificate" in caplog.text
    pem.key.write_bytes((pem.key.parent / "another.key").read_bytes())
    until(lambda: served_certificate(server.address) != before)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda pem: pem.cert.unlink(), "the certificate .*server.pem cannot be read: No such"),
        (lambda pem: pem.key.write_text(""), "the key .* is empty"),
        (lambda pem: pem.cert.write_text("hello"), "give PEM files"),
        (lambda pem: pem.key.write_text("hello"), "give PEM files"),
        (lambda pem: os.replace(pem.key.with_name("other.key"), pem.key), "does not belong to"),
        (lambda pem: pem.cert.with_name("authority.pem").write_text("x"), "holds no PEM"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_the_start(authority, broken, says) -> None:
    pem, _ = authority.issue("server"), authority.issue("other")
    broken(pem)
    with pytest.raises(SetupError, match=says):
        TlsFiles(pem.cert, pem.key, authority.pem.cert).read()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls_cert": "a"}, "--tls-cert is given without --tls-key"),
        ({"tls_key": "a"}, "--tls-key is given without --tls-cert"),
        ({"tls_client_ca": "a"}, "--tls-client-ca is given without"),
    ],
)
def test_half_a_setting_is_refused(settings, says) -> None:
    with pytest.raises(SetupError, match=says):
        ServerConfig(**settings)


def test_a_file_is_looked_at_now_and_then_and_not_at_every_call(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    reads = []

    def read() -> str:
        reads.append(path.read_text())
        return reads[-1]

    file = watched.Watched([path], read, lambda outcome: None)
    assert [file.get() for _ in range(100)] == ["one"] * 100
    assert len(reads) == 1
    path.write_text("another")
    until(lambda: file.get() == "another")
    assert len(reads) == 2
