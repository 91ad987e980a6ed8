"""Bundles with random weights: as fast as trained ones, and made in seconds."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from export.bundle import export_bundle
from model.bundle import Bundle
from model.config import PRESETS, EncoderConfig
from model.encoder import EncoderClassifier
from model.tokenizer import train_tokenizer
from model.weights import write_bundle

VOCAB_SIZE = 8000


@contextmanager
def random_bundle(preset: str, **changes: Any) -> Iterator[Bundle]:
    """An exported bundle of a preset's sizes, for as long as it is needed."""
    torch.manual_seed(0)
    config = {"vocab_size": VOCAB_SIZE, "num_labels": 2, **PRESETS[preset], **changes}
    encoder = EncoderClassifier(EncoderConfig(**config)).eval()
    tokenizer = train_tokenizer(["words of no meaning"], "wordpiece", 100)
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / preset, Path(folder) / f"{preset}-onnx"
        write_bundle(source, encoder, tokenizer, name=preset, labels=["no", "yes"])
        yield export_bundle(source, output)
