"""A trainer with odd sizes on made-up texts that can be learned."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.training.batches import EncodedTexts
from model.training.config import TrainConfig
from model.training.loop import Task, Trainer


def made_up_texts(num_texts: int, seed: int, multi_label: bool) -> EncodedTexts:
    """Texts whose class is told by one of three tokens, among noise."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=num_texts)
    input_ids = []
    for label in classes:
        ids = rng.integers(10, 53, size=rng.integers(3, 20))
        ids[rng.integers(1, len(ids))] = 4 + label
        ids[0] = 2
        input_ids.append(ids.tolist())
    targets = torch.from_numpy(np.eye(3, dtype=np.float32)[classes] if multi_label else classes)
    return EncodedTexts(input_ids, targets, 0)


def make_trainer(config: TrainConfig, multi_label: bool = False, dropout: float = 0.0) -> Trainer:
    torch.manual_seed(config.seed)
    texts = made_up_texts(60, 3, multi_label), made_up_texts(30, 4, multi_label)
    task = Task(*texts, ["a", "b", "c"], "multi_label" if multi_label else "single_label")
    network = EncoderConfig(
        vocab_size=53,
        num_labels=3,
        hidden_size=30,
        num_hidden_layers=2,
        num_attention_heads=5,
        intermediate_size=37,
        max_position_embeddings=41,
        dropout=dropout,
    )
    return Trainer(EncoderClassifier(network), task, config)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Matrices this small only wait for a second thread."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def trainer_of() -> Callable[..., Trainer]:
    """Makes a trainer from a TrainConfig: 60 texts to learn from, 30 to validate on."""
    return make_trainer
