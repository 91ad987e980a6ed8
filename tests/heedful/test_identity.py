"""Clients that say who they are, over TLS and with tokens, and what they say when it fails."""

import asyncio
import json

import grpc
import pytest
from click.testing import CliRunner

from cli.main import main
from heedful import (
    AsyncClient,
    Client,
    DeadlineExceededError,
    Tls,
    UnauthenticatedError,
    UnavailableError,
)
from heedful.handshakes import explain, is_no_connection
from heedful.identity import read_token
from tests.service.certificates import Authority
from tests.service.engines import GoldenEngine

GOOD = "0123456789abcdef-good"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identity")
    (folder / "token").write_text(f"# ours\n{GOOD}\n")
    return folder


@pytest.fixture(scope="module")
def authority(folder):
    return Authority(folder / "certificates")


@pytest.fixture(scope="module")
def caller(authority):
    return authority.issue("caller")


@pytest.fixture(scope="module")
def guarded(start_server, tiny_bundle, folder, authority):
    """A server that wants a certificate and a token."""
    pem = authority.issue("server")
    return start_server(
        tiny_bundle,
        load=lambda bundle, config: GoldenEngine(tiny_bundle),
        tls_cert=str(pem.cert),
        tls_key=str(pem.key),
        tls_client_ca=str(authority.pem.cert),
        tokens_file=str(folder / "token"),
    )


@pytest.fixture(scope="module")
def tls(authority, caller):
    return Tls(ca_cert=authority.pem.cert, cert=caller.cert, key=caller.key)


def test_every_call_carries_the_token_over_tls(guarded, tls) -> None:
    with Client(guarded.address, tls=tls, token=GOOD) as client:
        client.wait_until_ready()
        assert client.is_ready()
        assert client.classify("kind").label
        assert client.tokenize("kind").tokens
        assert client.model_info().model == "tiny"
        assert len(list(client.classify_stream(["kind", "film"]))) == 2


def test_so_does_the_asyncio_client(guarded, tls) -> None:
    async def run():
        async with AsyncClient(guarded.address, tls=tls, token=GOOD) as client:
            await client.wait_until_ready()
            assert (await client.classify("kind")).label
            return [answer async for answer in client.classify_stream(["kind"])]

    assert len(asyncio.run(run())) == 1


@pytest.mark.parametrize("token", [None, GOOD[:-1]])
def test_without_the_right_token_every_call_is_unauthenticated(guarded, tls, token) -> None:
    with Client(guarded.address, tls=tls, token=token) as client:
        assert client.is_ready(), "health is open"
        for call in (
            lambda: client.classify("kind"),
            client.model_info,
            lambda: list(client.classify_stream(["kind"])),
        ):
            with pytest.raises(UnauthenticatedError, match="a valid bearer token") as refused:
                call()
            assert refused.value.reason == "UNAUTHENTICATED"


@pytest.fixture(scope="module")
def strangers(folder):
    return Authority(folder / "strangers", "strangers")


HANDSHAKES = {
    "plain text": "it wants TLS, or a client certificate whose signer it trusts",
    "no certificate": "it wants TLS, or a client certificate whose signer it trusts",
    "a stranger's certificate": "it wants TLS, or a client certificate whose signer it trusts",
    "another authority": r"not trusted \(CERTIFICATE_VERIFY_FAILED: .*\): ca_cert must name",
}


@pytest.mark.parametrize("way", HANDSHAKES)
def test_a_handshake_that_fails_says_what_may_be_wrong(
    guarded, authority, caller, strangers, way
) -> None:
    own, stranger = (caller.cert, caller.key), strangers.issue("stranger")
    ca_cert = strangers.pem.cert if way == "another authority" else authority.pem.cert
    cert, key = {
        "no certificate": (None, None),
        "a stranger's certificate": (stranger.cert, stranger.key),
    }.get(way, own)
    tls = way != "plain text" and Tls(ca_cert=ca_cert, cert=cert, key=key)

    async def ask_async() -> None:
        async with AsyncClient(guarded.address, tls=tls) as client:
            await client.classify("kind", timeout=5)

    with Client(guarded.address, tls=tls) as client:
        for ask in (
            lambda: client.classify("kind", timeout=5),
            lambda: list(client.classify_stream(["kind"], timeout=5)),
            lambda: asyncio.run(ask_async()),
        ):
            with pytest.raises(UnavailableError, match=HANDSHAKES[way]) as refused:
                ask()
            assert refused.value.reason == "HANDSHAKE_FAILED"
        with pytest.raises(DeadlineExceededError, match=HANDSHAKES[way]) as failed:
            client.wait_until_ready(0.3)
        assert failed.value.reason == "HANDSHAKE_FAILED"


def test_a_certificate_for_another_name_is_said() -> None:
    details = (  # gRPC 1.85; not every machine has a second name for itself
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.2:38271: Custom "
        "verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed."
    )
    message, reason = explain(details, "elsewhere:50051")
    assert "elsewhere:50051 shows is for another name" in message
    assert reason == "HANDSHAKE_FAILED"


def test_a_name_that_nobody_knows_is_said() -> None:
    details = (
        "errors resolving nowhere:36525: [field:hostname lookup error:address lookup failed for "
        "nowhere:36525: Domain name not found]"
    )
    assert is_no_connection(details)
    message = "no server answers at nowhere:36525 (Domain name not found)"
    assert explain(details, "nowhere:36525") == (message, "")


def test_tls_where_there_is_none_is_said(server, authority) -> None:
    tls = Tls(ca_cert=authority.pem.cert)
    with (
        Client(server.address, tls=tls) as client,
        pytest.raises(UnavailableError, match="does not speak TLS: ask it without"),
    ):
        client.classify("kind", timeout=5)


def test_a_command_points_at_its_options_when_the_handshake_fails(guarded) -> None:
    done = run("info", "--target", guarded.address)
    assert done.exit_code == 1
    assert "it wants TLS" in done.stderr
    assert "--client-cert" in done.stderr
    assert "heedful serve" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls": Tls(ca_cert="nowhere.pem")}, "nowhere.pem cannot be read: No such file"),
        ({"tls": True, "credentials": grpc.ssl_channel_credentials()}, "not both"),
        ({"token": ""}, "a token is printable ASCII"),
        ({"token": "two words"}, "a token is printable ASCII"),
        ({"token": "a\nb"}, "a token is printable ASCII"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_once(settings, says) -> None:
    with pytest.raises(ValueError, match=says):
        Client("localhost:1", **settings)


def test_files_that_are_no_certificates_are_refused_at_once(caller, authority, folder) -> None:
    other = authority.issue("other")
    for tls in (Tls(ca_cert=folder / "token"), Tls(cert=caller.cert, key=other.key)):
        with pytest.raises(ValueError, match="cannot be used: give PEM files"):
            Client("localhost:1", tls=tls)


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ValueError, match="give both"):
        Tls(cert="a.pem")


def test_a_token_is_not_shown(folder) -> None:
    with Client("localhost:1", token=GOOD) as client:
        assert GOOD not in repr(client._connection)


def test_a_token_file_without_a_token_is_refused(tmp_path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(ValueError, match="has no token"):
        read_token(tmp_path / "empty")


def run(*words: object, **environment: str):
    runner = CliRunner(env={"HEEDFUL_TOKEN": None, **environment})
    return runner.invoke(main, list(map(str, words)), catch_exceptions=False)


def test_commands_take_files_and_a_token(guarded, folder, authority, caller) -> None:
    files = ["--ca-cert", authority.pem.cert, "--client-cert", caller.cert]
    files += ["--client-key", caller.key, "--target", guarded.address]
    done = run("classify", "--json", *files, "--token-file", folder / "token", "kind")
    assert json.loads(done.stdout)["model"] == "tiny"
    done = run("info", "--json", *files, HEEDFUL_TOKEN=GOOD)
    assert json.loads(done.stdout)["model"] == "tiny"
    done = run("classify", *files, "kind")
    assert done.exit_code == 1
    assert "--token-file" in done.stderr


def test_commands_take_all_of_it_from_the_environment(guarded, folder, authority, caller) -> None:
    environment = {
        "HEEDFUL_TARGET": guarded.address,
        "HEEDFUL_CA_CERT": str(authority.pem.cert),
        "HEEDFUL_CLIENT_CERT": str(caller.cert),
        "HEEDFUL_CLIENT_KEY": str(caller.key),
        "HEEDFUL_TOKEN_FILE": str(folder / "token"),
    }
    assert json.loads(run("info", "--json", **environment).stdout)["model"] == "tiny"


def test_a_command_names_the_file_it_cannot_read() -> None:
    done = run("classify", "--ca-cert", "nowhere.pem", "kind")
    assert done.exit_code == 1
    assert "nowhere.pem cannot be read" in done.stderr
    assert "give both" in run("classify", "--client-key", "k.pem", "kind").stderr
