"""One training run: data set and recipe in, bundle out, with a state that can be gone on with."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from model.bundle import Bundle
from model.data.dataset import SPLITS, Dataset, SplitName
from model.encoder import EncoderClassifier, count_parameters
from model.errors import DataError, InvalidInputError, SetupError
from model.tokenizer import TextEncoder, train_tokenizer
from model.training.baseline import measure_baseline
from model.training.batches import EncodedTexts, encode_texts
from model.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from model.training.config import NetworkConfig, TextConfig, TrainConfig
from model.training.loop import Listener, Task, Trainer
from model.training.metrics import score
from model.training.model_card import model_card
from model.training.prediction import Watch, unwatched
from model.weights import write_bundle

TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All options of one run."""

    text: TextConfig = field(default_factory=TextConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Recipe":
        return cls(
            text=TextConfig(**values["text"]),
            network=NetworkConfig(**values["network"]),
            train=TrainConfig(**values["train"]),
        )


@dataclass(frozen=True)
class Prepared:
    """A data set made ready: tokenizer, encoded splits and the trainer."""

    dataset: Dataset
    recipe: Recipe
    tokenizer: Tokenizer
    texts: dict[SplitName, EncodedTexts]
    trainer: Trainer


def use_threads(threads: int | None) -> int:
    """Sets how many threads PyTorch computes with; None is every core this process may use."""
    if threads is not None and threads < 1:
        raise InvalidInputError(f"threads must be at least 1, got {threads}")
    number = threads or usable_cores()
    torch.set_num_threads(number)
    return number


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_device(device: str) -> None:
    """Refuses a GPU that is not there: training on the processor instead would take days."""
    if device == "cuda" and not torch.cuda.is_available():
        raise SetupError("PyTorch finds no GPU here: train with the device cpu")


def prepare(
    dataset: Dataset,
    recipe: Recipe,
    run_folder: Path,
    watch: Watch = unwatched,
) -> Prepared:
    """Learns the tokenizer, or reads the one of an earlier start, encodes, and makes the network.

    Raises:
        DataError: a text without tokens.
    """
    tokenizer = _tokenizer(dataset, recipe.text, run_folder / TOKENIZER_FILE)
    encoder = TextEncoder(tokenizer, recipe.text.max_tokens)
    texts = {
        name: encode_texts(
            watch(dataset.split(name), "texts"), encoder, dataset.labels, dataset.problem_type,
            recipe.text.truncation,
        )
        for name in SPLITS
    }  # fmt: skip
    torch.manual_seed(recipe.train.seed)
    config = recipe.network.encoder_config(
        vocab_size=encoder.vocab_size,
        num_labels=len(dataset.labels),
        max_tokens=recipe.text.max_tokens,
    )
    network = EncoderClassifier(config)
    task = Task(texts["train"], texts["validation"], dataset.labels, dataset.problem_type)
    trainer = Trainer(network, task, recipe.train, watch)
    return Prepared(dataset, recipe, tokenizer, texts, trainer)


def train(
    prepared: Prepared,
    run_folder: Path,
    listeners: Sequence[Listener] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Trains, from the last checkpoint of run_folder if it has one; False if stopped on the way."""
    return prepared.trainer.run(listeners, should_stop, lambda: _save(run_folder, prepared.trainer))


def resume(prepared: Prepared, run_folder: Path) -> None:
    """Takes up the last checkpoint, if one was written."""
    if checkpoints(run_folder):
        load_checkpoint(run_folder, prepared.trainer)


def finish(
    prepared: Prepared, output: Path, name: str, baseline: dict[str, Any], command: str
) -> Bundle:
    """Scores the best weights on validation and, for the first time, on test; writes the bundle."""
    started = time.monotonic()
    dataset, trainer = prepared.dataset, prepared.trainer
    metrics: dict[str, Any] = {split: _figures(prepared, split) for split in ("validation", "test")}
    metrics["baseline"] = baseline
    metrics["epochs"] = trainer.state.history
    metrics["best_epoch"] = trainer.state.best_epoch
    metrics["texts_truncated"] = {
        split: texts.num_truncated for split, texts in prepared.texts.items()
    }
    metrics["evaluation_seconds"] = round(time.monotonic() - started, 1)
    provenance = {
        "command": command,
        "data": asdict(dataset.source),
        "rows": dataset.num_rows,
        "recipe": asdict(prepared.recipe),
        "parameters": count_parameters(trainer.network),
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("heedful", "torch", "tokenizers")},
        },
    }
    network = trainer.network.to("cpu")
    card = model_card(name, dataset, network.config, metrics, provenance)
    return write_bundle(
        output, network, prepared.tokenizer, name=name, labels=dataset.labels,
        problem_type=dataset.problem_type, provenance=provenance, metrics=metrics,
        model_card=card,
    )  # fmt: skip


def loses_to_baseline(metrics: dict[str, Any], metric: str) -> bool:
    """Whether TF-IDF was better on test."""
    return bool(metrics["test"][metric] < metrics["baseline"]["test"][metric])


def baseline_of(dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    return measure_baseline(dataset, recipe.train.metric)


def _save(run_folder: Path, trainer: Trainer) -> None:
    save_checkpoint(run_folder, trainer)


def _figures(prepared: Prepared, split: SplitName) -> dict[str, Any]:
    texts, dataset = prepared.texts[split], prepared.dataset
    logits = prepared.trainer.logits(texts)
    return score(logits, texts.targets.numpy(), dataset.labels, dataset.problem_type)


def _tokenizer(dataset: Dataset, config: TextConfig, path: Path) -> Tokenizer:
    if path.exists():
        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"{path} cannot be read: {error}. Start again") from None
    texts = [
        text
        for example in dataset.train
        for text in (example.text, example.text_pair)
        if text is not None
    ]
    tokenizer = train_tokenizer(texts, config.tokenizer, config.vocab_size)
    tokenizer.save(str(path))
    return tokenizer
