"""Checkpoints: safetensors and JSON, written in one step, and enough to go on bit for bit."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.errors import DataError
from model.training.loop import Trainer, TrainState

PREFIX = "checkpoint-"
NETWORK, BEST, OPTIMIZER, RANDOM, STATE = (
    "network.safetensors",
    "best.safetensors",
    "optimizer.safetensors",
    "random.safetensors",
    "state.json",
)


def save_checkpoint(run_folder: Path, trainer: Trainer) -> Path:
    """Writes the trainer's state beside the last one, moves it in place, deletes older ones."""
    older = checkpoints(run_folder)
    number = _number(older[-1]) + 1 if older else 1
    draft = Path(tempfile.mkdtemp(prefix=".checkpoint-", dir=run_folder))
    try:
        tensors = {
            NETWORK: trainer.network.state_dict(),
            BEST: trainer.best_weights,
            OPTIMIZER: optimizer_tensors(trainer),
            RANDOM: random_tensors(),
        }
        for name, content in tensors.items():
            save_file({key: value.contiguous() for key, value in content.items()}, draft / name)
        state = json.dumps(trainer.state.to_dict(), indent=2, allow_nan=False)
        (draft / STATE).write_text(state + "\n", encoding="utf-8")
        path = run_folder / f"{PREFIX}{number:06d}"
        os.replace(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for folder in older:
        shutil.rmtree(folder)
    return path


def load_checkpoint(run_folder: Path, trainer: Trainer) -> None:
    """Puts the last checkpoint's state into a trainer made with the same options.

    Raises:
        DataError: no checkpoint there, a damaged one, or one of another network.
    """
    found = checkpoints(run_folder)
    if not found:
        raise DataError(f"{run_folder} has no checkpoint: start again without --resume")
    path = found[-1]
    try:
        values: dict[str, Any] = json.loads((path / STATE).read_text(encoding="utf-8"))
        state = TrainState.from_dict(values)
        trainer.network.load_state_dict(load_file(path / NETWORK))
        best = load_file(path / BEST)
        set_optimizer_tensors(trainer, load_file(path / OPTIMIZER))
        random = load_file(path / RANDOM)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{path} cannot be read: {error}. Delete {run_folder} and start again"
        ) from None
    trainer.state, trainer.best_weights = state, best
    set_random_tensors(random)


def checkpoints(run_folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(run_folder.glob(f"{PREFIX}[0-9]*"), key=_number)


def _number(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))


def optimizer_tensors(trainer: Trainer) -> dict[str, Tensor]:
    """The optimizer's moments and step counts by parameter name."""
    return {
        f"{name}:{key}": value
        for name, parameter in trainer.network.named_parameters()
        for key, value in trainer.optimizer.state.get(parameter, {}).items()
    }


def set_optimizer_tensors(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(trainer.network.named_parameters())
    for key, value in tensors.items():
        name, _, item = key.rpartition(":")
        parameter = parameters[name]
        trainer.optimizer.state[parameter][item] = value.to(parameter.device)


def random_tensors() -> dict[str, Tensor]:
    """States of the generators that dropout draws from."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_random_tensors(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"])
