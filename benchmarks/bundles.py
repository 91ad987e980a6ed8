"""Bundles with random weights: as fast as trained ones, and made in seconds."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from export.accuracy import Quantization
from export.bundle import export_bundle
from model.bundle import ATTENTION_GRAPH, MANIFEST, Bundle, load_bundle
from model.config import PRESETS, EncoderConfig
from model.encoder import EncoderClassifier
from model.tokenizer import train_tokenizer
from model.weights import write_bundle

VOCAB_SIZE = 8000
SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "minilm": (
        "base",
        {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    **{preset: (preset, {}) for preset in PRESETS},
}


@contextmanager
def random_bundle(size: str, *, int8: bool = False) -> Iterator[Bundle]:
    """An exported bundle of a preset's sizes, or MiniLM's, for as long as it is needed."""
    torch.manual_seed(0)
    preset, changes = SIZES[size]
    quantization = Quantization(measured_on=None, force=True) if int8 else None
    config = {"vocab_size": VOCAB_SIZE, "num_labels": 2, **PRESETS[preset], **changes}
    encoder = EncoderClassifier(EncoderConfig(**config)).eval()
    tokenizer = train_tokenizer(["words of no meaning"], "wordpiece", 100)
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / size, Path(folder) / f"{size}-onnx"
        write_bundle(source, encoder, tokenizer, name=size, labels=["no", "yes"])
        yield export_bundle(source, output, quantization=quantization)


@contextmanager
def without_attention(bundle: Bundle) -> Iterator[Bundle]:
    """The same bundle as if attention had not been exported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / bundle.path.name
        shutil.copytree(bundle.path, path)
        (path / ATTENTION_GRAPH).unlink()
        manifest = json.loads((path / MANIFEST).read_text())
        del manifest["files"][ATTENTION_GRAPH]
        (path / MANIFEST).write_text(json.dumps(manifest))
        yield load_bundle(path)
