"""Peers that mean no good: each is refused or bounded, and the server goes on answering."""

import resource
import socket
from contextlib import ExitStack

import grpc
import pytest

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service import http2
from tests.service.calls import TIMEOUT, texts
from tests.service.engines import GoldenEngine
from tests.service.network.test_streams import until

CLASSIFY = "/heedful.v1.Classifier/Classify"
STREAM = "/heedful.v1.Classifier/ClassifyStream"


@pytest.fixture(scope="module")
def server(start_server, tiny_bundle):
    return start_server(tiny_bundle, load=lambda bundle, config: GoldenEngine(tiny_bundle))


@pytest.fixture(autouse=True)
def still_answers(server):
    """After each attack the server answers, on an old line and on a new one."""
    with grpc.insecure_channel(server.address) as old:
        stub = ClassifierStub(old)
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results
        yield
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results
    with grpc.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1)]) as new:
        assert ClassifierStub(new).Classify(texts("kind"), timeout=TIMEOUT).results


@pytest.mark.parametrize("path", [CLASSIFY, STREAM])
@pytest.mark.parametrize("claimed", [2**30, 2**32 - 1])
def test_a_message_that_claims_a_gibibyte_is_refused_before_it_is_there(
    server, path, claimed
) -> None:
    with http2.connect(server.address) as line:
        line.sendall(http2.greeting() + http2.call(path))
        line.sendall(http2.frame(http2.DATA, http2.message(claimed, b"x" * 100), stream=1))
        frames = [http2.next_frame(line)]
        while (frames[-1][0], frames[-1][1]) != (http2.HEADERS, 1):
            assert frames[-1][0] not in {-1, http2.RST_STREAM}, frames
            frames.append(http2.next_frame(line))
        assert frames[-1][0] == http2.HEADERS


@pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff\x03", b"\xff" * 9 + b"\x01"])
def test_a_field_that_claims_a_gibibyte_is_malformed(server, claimed) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary(CLASSIFY).future(b"\x0a" + claimed, timeout=TIMEOUT)
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_small_message_that_unpacks_to_a_large_one_is_refused(server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary(CLASSIFY).future(
            bytes(64 << 20), timeout=TIMEOUT, compression=grpc.Compression.Gzip
        )
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_huge_metadata_is_refused(server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary(CLASSIFY).future(
            b"", timeout=TIMEOUT, metadata=[("x", "y" * (1 << 20))]
        )
        assert call.code() is not grpc.StatusCode.OK


def test_bytes_that_are_no_http2_end_their_connection(server) -> None:
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 50, b"\0" * 1000):
        with http2.connect(server.address) as line:
            line.sendall(nonsense)
            while http2.next_frame(line)[0] != -1:
                pass


@pytest.mark.parametrize(
    "broken",
    [
        http2.frame(http2.HEADERS, b"\xff" * 50, http2.END_HEADERS, 1),
        http2.frame(http2.DATA, b"x" * 50, stream=7),
        http2.frame(99, b"x" * 50, stream=1),
        http2.frame(http2.SETTINGS, b"x" * 5),
        http2.frame(http2.PING) * 50,
        b"\xff\xff\xff\0\0\0\0\0\1",
    ],
)
def test_broken_frames_hurt_nobody_else(server, broken) -> None:
    with http2.connect(server.address) as line:
        line.sendall(http2.greeting() + broken)


def test_calls_that_are_reset_at_once_hurt_nobody_else(server) -> None:
    with http2.connect(server.address) as line:
        line.sendall(http2.greeting())
        for number in range(1, 2001, 2):
            reset = http2.frame(http2.RST_STREAM, (8).to_bytes(4, "big"), stream=number)
            try:
                line.sendall(http2.call(CLASSIFY, stream=number) + reset)
            except OSError:
                break  # the server had enough


def test_requests_that_never_end_wait_without_being_in_the_way(server) -> None:
    with ExitStack() as lines:
        for _ in range(100):
            line = lines.enter_context(http2.connect(server.address))
            line.sendall(http2.greeting() + http2.call(CLASSIFY))
            line.sendall(http2.frame(http2.DATA, http2.message(1000, b"x"), stream=1))
        with grpc.insecure_channel(server.address) as channel:
            assert ClassifierStub(channel).Classify(texts("kind"), timeout=TIMEOUT).results


def test_a_thousand_idle_connections_leave_room_for_a_caller(server) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * 1000 + 200  # both ends are in this process
    if hard < needed:
        pytest.skip(f"this process may open {hard} files and the test needs {needed}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        with ExitStack() as lines:
            for _ in range(1000):
                lines.enter_context(http2.connect(server.address))
            with grpc.insecure_channel(
                server.address, [("grpc.use_local_subchannel_pool", 1)]
            ) as channel:
                stub = ClassifierStub(channel)
                assert stub.Classify(texts("kind"), timeout=TIMEOUT).results
                assert stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT).model
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


LITTLE = 1 << 20


@pytest.fixture
def little_room(start_server, tiny_bundle):
    server = start_server(
        tiny_bundle,
        load=lambda bundle, config: GoldenEngine(tiny_bundle),
        max_unread_bytes=LITTLE,
        max_attention_bytes=LITTLE,
    )
    yield server
    server.stop()


def large() -> pb.ClassifyRequest:
    """Its answer has 8 x 2 x 3 x 41 x 41 weights: 323 kB, more than a window holds."""
    ids = pb.TokenIds(ids=[5] * 41)
    return pb.ClassifyRequest(
        inputs=[pb.Input(token_ids=ids)] * 8, attention=pb.AttentionOptions(heads=[0, 1, 2])
    )


def unread(server) -> float:
    return server.server.metrics.registry.get_sample_value("heedful_unread_bytes")


def ask_and_never_read(path: str, data: bytes, address: str) -> socket.socket:
    line = http2.connect(address)
    line.sendall(http2.greeting() + http2.call(path))
    whole = http2.message(len(data), data)
    line.sendall(http2.frame(http2.DATA, whole, http2.END_STREAM, stream=1))
    return line


def test_callers_that_do_not_read_their_attention_take_bounded_memory(little_room) -> None:
    data = large().SerializeToString()
    with ExitStack() as lines, grpc.insecure_channel(little_room.address) as channel:
        for _ in range(3):
            lines.enter_context(ask_and_never_read(CLASSIFY, data, little_room.address))
        until(lambda: unread(little_room) > 3 * 300_000)
        stub = ClassifierStub(channel)
        refused = stub.Classify.future(large(), timeout=TIMEOUT)
        assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "bytes of attention" in refused.details()
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results, "plain calls need none of it"
        lines.close()
        until(lambda: unread(little_room) == 0)
        assert len(stub.Classify(large(), timeout=TIMEOUT).results) == 8
        until(lambda: unread(little_room) == 0)


def test_a_stream_that_is_not_read_takes_bounded_memory(little_room) -> None:
    with grpc.insecure_channel(little_room.address) as channel:
        stub = ClassifierStub(channel)
        requests = (
            pb.ClassifyStreamRequest(id=str(number), request=large()) for number in range(30)
        )
        call = stub.ClassifyStream(requests, timeout=TIMEOUT)
        first = next(call)
        assert unread(little_room) <= LITTLE
        answers = [first, *call]
    outcomes = {answer.error.reason or "answered" for answer in answers}
    assert len(answers) == 30
    assert outcomes <= {"answered", "QUEUE_FULL"}
    until(lambda: unread(little_room) == 0)
