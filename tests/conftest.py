"""A tiny bundle with odd, pairwise different sizes, so that a swapped axis cannot pass by luck."""

from pathlib import Path

import pytest
import torch

from model.bundle import Bundle
from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.tokenizer import train_tokenizer
from model.weights import write_bundle

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
def tiny_encoder() -> EncoderClassifier:
    torch.manual_seed(5)
    tokenizer = train_tokenizer(SENTENCES, "wordpiece", 211)
    config = EncoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
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
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: EncoderClassifier
) -> Bundle:
    """A bundle as training writes it: no graphs yet."""
    path: Path = tmp_path_factory.mktemp("bundles") / "tiny"
    tokenizer = train_tokenizer(SENTENCES, "wordpiece", 211)
    return write_bundle(path, tiny_encoder, tokenizer, name="tiny", labels=LABELS)


@pytest.fixture(scope="session")
def exported_bundle(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Bundle) -> Bundle:
    """The tiny bundle with its graphs, as a server gets it; never to be changed."""
    from export.bundle import export_bundle

    return export_bundle(tiny_bundle.path, tmp_path_factory.mktemp("exported") / "tiny-onnx")
