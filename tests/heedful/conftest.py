"""A peer that answers what a test tells it to, made-up attention and a browser."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from heedful import Attention, LabelScore, Token
from heedful.v1 import classifier_pb2 as pb
from heedful.v1 import classifier_pb2_grpc


class Peer(classifier_pb2_grpc.ClassifierServicer):
    """A real gRPC server that speaks the contract and answers as the test says."""

    def __init__(self) -> None:
        self.answer: Callable[[pb.ClassifyRequest, grpc.ServicerContext], pb.ClassifyResponse]
        self.stream: Callable[..., Iterator[pb.ClassifyStreamResponse]]
        self.health = health.HealthServicer()
        self.server = grpc.server(ThreadPoolExecutor(4))
        classifier_pb2_grpc.add_ClassifierServicer_to_server(self, self.server)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.server)
        self.target = f"localhost:{self.server.add_insecure_port('localhost:0')}"
        self.server.start()

    def Classify(self, request, context):  # noqa: N802  # the contract's name
        return self.answer(request, context)

    def ClassifyStream(self, requests, context):  # noqa: N802  # the contract's name
        return self.stream(requests, context)

    def set_serving(self, serving: bool) -> None:
        statuses = health_pb2.HealthCheckResponse
        self.health.set("", statuses.SERVING if serving else statuses.NOT_SERVING)


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.server.stop(None).wait()


@pytest.fixture(scope="session")
def make_attention() -> Callable[..., Attention]:
    """make_attention(words, layers=3, heads=2, text=None): random rows over [CLS] words [SEP]."""

    def make(words, layers=3, heads=2, text=None, seed=0) -> Attention:
        text = " ".join(words) if text is None else text
        tokens, place = [Token(2, "[CLS]", "", 0, 0, 0, True)], 0
        for word in words:
            begin = text.index(word, place)
            place = begin + len(word)
            tokens.append(Token(9, word.lower(), word, begin, place, 0, False))
        tokens.append(Token(3, "[SEP]", "", 0, 0, 0, True))
        size = len(tokens)
        shape = (layers, heads, size)
        rows = np.random.default_rng(seed).dirichlet(np.full(size, 0.5), shape).astype(np.float32)
        labels = (LabelScore("good", 1, 0.75, 1.1), LabelScore("bad", 0, 0.25, 0.0))
        return Attention(
            weights=rows,
            layers=tuple(range(layers)),
            heads=tuple(range(heads)),
            queries=tuple(range(size)),
            tokens=tuple(tokens),
            texts=(text,),
            labels=labels,
            model="tiny",
            version="0123456789ab",
        )

    return make


@pytest.fixture(scope="session")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium is installed")
