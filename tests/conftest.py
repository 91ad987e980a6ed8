"""A tiny bundle with odd, pairwise different sizes, so that a swapped axis cannot pass by luck."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tokenizers import Tokenizer

from model.bundle import Bundle
from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.tokenizer import train_tokenizer
from model.weights import write_bundle
from service.config import ServerConfig
from service.server import Server
from service.versions.serving import load_engine

# Hypothesis fails an example that takes over 200 ms; a busy machine is no fault of ours.
settings.register_profile("heedful", settings.default, deadline=None)
settings.load_profile("heedful")

SENTENCES = [
    "A film that warms the heart, slowly and for good.",
    "Two hours of noise; not one honest scene.",
    "The actors carry a thin story further than it deserves.",
    "房间很干净，服务也好。",
    "早餐太差，不会再来。",
    "Bright, brisk and unexpectedly kind 😀",
]
LABELS = ["bad", "fair", "good"]


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Tokenizer:
    """Trained once, for the encoder and the bundle."""
    return train_tokenizer(SENTENCES, "wordpiece", 211)


@pytest.fixture(scope="session")
def tiny_encoder(tiny_tokenizer: Tokenizer) -> EncoderClassifier:
    torch.manual_seed(5)
    config = EncoderConfig(
        vocab_size=tiny_tokenizer.get_vocab_size(),
        num_labels=len(LABELS),
        hidden_size=30,
        num_hidden_layers=2,
        num_attention_heads=5,
        intermediate_size=37,
        max_position_embeddings=41,
    )
    return EncoderClassifier(config).eval()


@pytest.fixture(scope="session")
def tiny_bundle(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_encoder: EncoderClassifier,
    tiny_tokenizer: Tokenizer,
) -> Bundle:
    """A bundle as training writes it: no graphs yet."""
    path: Path = tmp_path_factory.mktemp("bundles") / "tiny"
    return write_bundle(path, tiny_encoder, tiny_tokenizer, name="tiny", labels=LABELS)


@pytest.fixture(scope="session")
def exported_bundle(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Bundle) -> Bundle:
    """The tiny bundle with its graphs, as a server gets it; never to be changed."""
    from export.bundle import export_bundle

    return export_bundle(tiny_bundle.path, tmp_path_factory.mktemp("exported") / "tiny-onnx")


@pytest.fixture(scope="session")
def int8_bundle(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Bundle) -> Bundle:
    """The tiny bundle with classify.onnx in int8; never to be changed."""
    from export.accuracy import Quantization
    from export.bundle import export_bundle

    output = tmp_path_factory.mktemp("quantized") / "tiny-int8"
    quantization = Quantization(measured_on=None, force=True)
    return export_bundle(tiny_bundle.path, output, quantization=quantization)


class RunningServer:
    """A real server on free ports, in a thread with an event loop of its own."""

    def __init__(self, bundle: Bundle, *, load=load_engine, **settings) -> None:
        self.config = ServerConfig(
            **{"port": 0, "metrics_port": 0, "instances": 1, "threads": 1, "grace": 5.0, **settings}
        )
        self.bundle, self._load = bundle, load
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self.server = Server(self.config, self.bundle, self._load)
        try:
            await self.server.start()
        except BaseException as error:
            self._error = error
            return
        finally:
            self._ready.set()
        await self._stopping.wait()
        self.finished = await self.server.stop()

    @property
    def address(self) -> str:
        """Where gRPC listens, for a channel or a client."""
        return self.server.address

    def begin_stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)

    def stop(self) -> bool:
        """Stops as SIGTERM does; whether everything accepted was answered."""
        if self._thread.is_alive():
            self.begin_stop()
            self._thread.join()
        return self.finished


@pytest.fixture(scope="session")
def start_server() -> Iterator[Callable[..., RunningServer]]:
    """Starts servers: start_server(bundle, backend="torch", max_inputs=3, ...).address."""
    started: list[RunningServer] = []

    def start(bundle: Bundle, **settings) -> RunningServer:
        server = RunningServer(bundle, **settings)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session", params=["onnx", "torch"])
def server(request, start_server, exported_bundle) -> RunningServer:
    """A server with the tiny bundle, once with each backend."""
    return start_server(exported_bundle, backend=request.param)


@pytest.fixture(scope="session")
def chinese_font() -> Path:
    """WenQuanYi Micro Hei out of an installed package, which is not imported."""
    for file in metadata.files("paperang-p2-fonts-cjk") or []:
        if file.name == "wqy-microhei.ttc":
            return Path(file.locate())
    pytest.skip("paperang-p2-fonts-cjk has no wqy-microhei.ttc")
