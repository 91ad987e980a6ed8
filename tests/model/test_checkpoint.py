"""Checkpoints: going on gives bit for bit what not stopping gives."""

import json
import signal
from collections.abc import Callable

import pytest
import torch

from model.errors import DataError
from model.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from model.training.config import TrainConfig
from model.training.interrupt import stop_request
from model.training.loop import Trainer

OPTIONS = {
    "epochs": 3,
    "tokens_per_batch": 90,
    "accumulation_steps": 2,
    "word_dropout": 0.2,
    "patience": 0,
    "seed": 7,
}


class StopAt:
    """Stops the training loop after so many steps."""

    def __init__(self, trainer: Trainer, step: int) -> None:
        self.trainer, self.step = trainer, step

    def __call__(self) -> bool:
        return self.trainer.state.step >= self.step


def everything(trainer: Trainer) -> dict[str, torch.Tensor]:
    tensors = {f"network {name}": value for name, value in trainer.network.state_dict().items()}
    tensors |= {f"best {name}": value for name, value in trainer.best_weights.items()}
    for name, parameter in trainer.network.named_parameters():
        for key, value in trainer.optimizer.state[parameter].items():
            tensors[f"{key} {name}"] = value
    return tensors


def assert_same_run(one: Trainer, other: Trainer) -> None:
    assert one.state == other.state
    mine, theirs = everything(one), everything(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert torch.equal(value, theirs[name]), name


@pytest.mark.parametrize("stop_at", [1, 4, 7, 9])
def test_going_on_equals_never_having_stopped(trainer_of, tmp_path, stop_at) -> None:
    """With dropout and word dropout: the generators' states must come back as well."""
    config = TrainConfig(**OPTIONS)
    whole = trainer_of(config, dropout=0.2)
    steps_per_epoch = len(whole.plan(0))
    assert 3 < steps_per_epoch < 9  # one stop within each epoch, one at an epoch's end
    assert whole.run()

    first = trainer_of(config, dropout=0.2)
    stopped = first.run((), StopAt(first, stop_at), lambda: save_checkpoint(tmp_path, first))
    assert not stopped
    assert first.state.step == stop_at
    torch.manual_seed(12345)  # whatever happened in between
    torch.rand(17)

    second = trainer_of(config, dropout=0.2)
    load_checkpoint(tmp_path, second)
    assert second.state.step == stop_at
    assert second.run((), lambda: False, lambda: save_checkpoint(tmp_path, second))
    assert_same_run(whole, second)


def test_a_forgotten_generator_state_would_show(trainer_of, tmp_path) -> None:
    """Guards the test above: with dropout, another generator state gives another run."""
    config = TrainConfig(**OPTIONS)
    whole = trainer_of(config, dropout=0.2)
    whole.run()
    first = trainer_of(config, dropout=0.2)
    first.run((), StopAt(first, 4), lambda: save_checkpoint(tmp_path, first))
    second = trainer_of(config, dropout=0.2)
    load_checkpoint(tmp_path, second)
    torch.manual_seed(1)
    second.run()
    assert not torch.equal(everything(whole)["network classifier.weight"],
                           everything(second)["network classifier.weight"])  # fmt: skip


def test_only_the_last_checkpoint_is_kept_and_drafts_are_not_seen(trainer_of, tmp_path) -> None:
    trainer = trainer_of(TrainConfig(**{**OPTIONS, "checkpoint_steps": 1}))
    trainer.run((), lambda: False, lambda: save_checkpoint(tmp_path, trainer))
    (tmp_path / ".checkpoint-half").mkdir()
    (found,) = checkpoints(tmp_path)
    assert {path.suffix for path in found.iterdir()} == {".safetensors", ".json"}
    assert json.loads((found / "state.json").read_text())["step"] == trainer.state.step


def test_a_failed_write_leaves_the_checkpoint_before_it(trainer_of, tmp_path) -> None:
    trainer = trainer_of(TrainConfig(**OPTIONS))
    save_checkpoint(tmp_path, trainer)
    trainer.state.loss_sum = float("nan")  # JSON has no such number: the last file fails
    with pytest.raises(ValueError, match="JSON"):
        save_checkpoint(tmp_path, trainer)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000001"]
    load_checkpoint(tmp_path, trainer)


def damage_state(path) -> None:
    (path / "state.json").write_text('{"epoch": 1')


def remove_best(path) -> None:
    (path / "best.safetensors").unlink()


def cut_optimizer(path) -> None:
    file = path / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


@pytest.mark.parametrize("damage", [damage_state, remove_best, cut_optimizer])
def test_a_damaged_checkpoint_is_refused(trainer_of, tmp_path, damage: Callable) -> None:
    trainer = trainer_of(TrainConfig(**OPTIONS))
    trainer.run((), StopAt(trainer, 2), lambda: save_checkpoint(tmp_path, trainer))
    damage(checkpoints(tmp_path)[-1])
    with pytest.raises(DataError, match="cannot be read"):
        load_checkpoint(tmp_path, trainer_of(TrainConfig(**OPTIONS)))


def test_going_on_without_a_checkpoint_is_refused(trainer_of, tmp_path) -> None:
    with pytest.raises(DataError, match="has no checkpoint"):
        load_checkpoint(tmp_path, trainer_of(TrainConfig(**OPTIONS)))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_once_and_interrupts_when_sent_again(signum) -> None:
    before = signal.getsignal(signum)
    with stop_request() as stop:
        assert not stop()
        signal.raise_signal(signum)
        assert stop()
        assert stop.exit_code == 128 + signum
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signum)
    assert signal.getsignal(signum) is before
