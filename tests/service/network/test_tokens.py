"""Bearer tokens: without one a caller gets nothing, and learns nothing."""

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.errors import SetupError
from service.network.tokens import read_tokens
from tests.service.calls import TIMEOUT, refusal_of, texts
from tests.service.engines import GoldenEngine
from tests.service.network.test_streams import until

GOOD, OTHER = "0123456789abcdef-good", "fedcba9876543210-other"
METHODS = [
    "/heedful.v1.Classifier/Classify",
    "/heedful.v1.Classifier/Tokenize",
    "/heedful.v1.Classifier/GetModel",
    "/heedful.v1.Classifier/ClassifyStream",
    "/heedful.v1.Classifier/NoSuchMethod",
    "/heedful.v1.Admin/LoadModel",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.channelz.v1.Channelz/GetServers",
    "/no.such.Service/Method",
]


@pytest.fixture
def tokens_file(tmp_path):
    return write_tokens(tmp_path)


def write_tokens(folder):
    path = folder / "tokens"
    path.write_text(f"# who may call\n{GOOD}\n\n  {OTHER}  \n")
    return path


@pytest.fixture(scope="module")
def server(start_server, tiny_bundle, tmp_path_factory):
    """One whose file stays as it is."""
    return guard(start_server, tiny_bundle, write_tokens(tmp_path_factory.mktemp("tokens")))


def guard(start_server, bundle, path):
    return start_server(
        bundle, load=lambda bundle, config: GoldenEngine(bundle), tokens_file=str(path)
    )


@pytest.fixture
def changing(start_server, tiny_bundle, tokens_file):
    """One whose file the test changes."""
    server = guard(start_server, tiny_bundle, tokens_file)
    yield server
    server.stop()


@pytest.fixture
def channel(request, server):
    chosen = request.getfixturevalue("changing") if "changing" in request.fixturenames else server
    with grpc.insecure_channel(chosen.address) as channel:
        yield channel


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def refusal(channel, method: str, metadata=None, data: bytes = b"") -> tuple:
    """Everything that a caller can see of a refusal."""
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(method)(data, timeout=TIMEOUT, metadata=metadata)
    error = refused.value
    return (
        error.code(),
        error.details(),
        tuple(error.initial_metadata() or ()),
        tuple(error.trailing_metadata() or ()),
    )


def test_a_token_of_the_file_gets_in(channel) -> None:
    stub = ClassifierStub(channel)
    for token in (GOOD, OTHER):
        assert stub.Classify(texts("kind"), timeout=TIMEOUT, metadata=bearer(token)).results
    lower_case = [("authorization", f"bearer {GOOD}")]
    assert stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT, metadata=lower_case).model


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [("authorization", "")],
        [("authorization", GOOD)],
        [("authorization", f"Basic {GOOD}")],
        bearer(""),
        bearer("# who may call"),
        bearer(GOOD[:-1]),
        bearer(GOOD + "x"),
        bearer("x" * 7000),
        [("authorization", "Bearer no"), *bearer(GOOD)],
    ],
)
def test_whatever_else_is_sent_gets_one_and_the_same_answer(channel, metadata) -> None:
    seen = {refusal(channel, method, metadata) for method in METHODS}
    seen |= {refusal(channel, METHODS[0], metadata, data) for data in (b"\xff", b"x" * 9000)}
    assert len(seen) == 1
    (code, details, _, _) = seen.pop()
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert details == "a valid bearer token is needed: send one as authorization metadata"


def test_a_refusal_says_so_to_programs_and_is_counted(channel, server) -> None:
    value = server.server.metrics.registry.get_sample_value
    before = value("heedful_refusals_total", {"reason": "UNAUTHENTICATED"}) or 0.0
    with pytest.raises(grpc.RpcError) as refused:
        ClassifierStub(channel).Classify(texts("kind"), timeout=TIMEOUT)
    assert refusal_of(refused.value).reason == "UNAUTHENTICATED"
    assert value("heedful_refusals_total", {"reason": "UNAUTHENTICATED"}) == before + 1


def test_streams_need_a_token_too(channel) -> None:
    requests = [pb.ClassifyStreamRequest(id="1", request=texts("kind"))]
    stub = ClassifierStub(channel)
    with pytest.raises(grpc.RpcError) as refused:
        next(stub.ClassifyStream(iter(requests), timeout=TIMEOUT))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    (answer,) = stub.ClassifyStream(iter(requests), timeout=TIMEOUT, metadata=bearer(GOOD))
    assert answer.response.results


def test_health_needs_no_token(channel) -> None:
    status = HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
    assert status.status == health_pb2.HealthCheckResponse.SERVING


def classify(channel, token: str) -> grpc.StatusCode:
    call = ClassifierStub(channel).Classify.future(
        texts("kind"), timeout=TIMEOUT, metadata=bearer(token)
    )
    return call.code()


def test_a_changed_file_counts_at_once_for_everybody(changing, channel, tokens_file) -> None:
    assert classify(channel, GOOD) is grpc.StatusCode.OK
    tokens_file.write_text("a-new-token-that-is-long-enough\n")
    until(lambda: classify(channel, GOOD) is grpc.StatusCode.UNAUTHENTICATED)
    assert classify(channel, "a-new-token-that-is-long-enough") is grpc.StatusCode.OK


def test_a_file_that_becomes_useless_changes_nothing_and_says_so(
    changing, channel, tokens_file, caplog
) -> None:
    tokens_file.write_text("short\n")
    labels = {"file": "tokens", "outcome": "refused"}
    value = changing.server.metrics.registry.get_sample_value
    until(
        lambda: (
            classify(channel, GOOD) is grpc.StatusCode.OK
            and value("heedful_file_reloads_total", labels) == 1
        )
    )
    assert "cannot be used; what was read before stays" in caplog.text
    assert GOOD not in caplog.text
    assert "short" not in caplog.text.replace("cannot be used", "")


def test_tokens_over_plain_text_are_warned_about(caplog, changing) -> None:
    said = [record.getMessage() for record in caplog.get_records("setup")]
    assert any("tokens travel unencrypted" in line for line in said)
    assert GOOD not in "".join(said)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"# nobody\n\n", "has no token"),
        (b"# x\nsecret\n", "the token in line 2 of .* has under 16 characters"),
        (b"two words that are long enough\n", "line 1 of the tokens file .* is no token"),
        ("房间房间房间房间房间房间房间房间".encode(), "line 1 .* ASCII"),
        (b"\xff" * 20, "line 1 .* ASCII"),
    ],
)
def test_a_file_without_usable_tokens_is_refused_by_line_number(tmp_path, content, says) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(SetupError, match=says) as refused:
        read_tokens(path)
    assert "secret" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(SetupError, match=r"the tokens file .*nothing cannot be read: No such file"):
        read_tokens(tmp_path / "nothing")
