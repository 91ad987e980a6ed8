"""Shows how training goes: a bar on a terminal, plain lines elsewhere, TensorBoard if asked."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from tqdm import tqdm

from model.training.loop import TrainState
from model.training.prediction import Watch

Item = TypeVar("Item")

SHOW_AFTER_S = 2.0
LINE_EVERY_S = 15.0


class ProgressBar:
    """One bar over all steps: real tokens a second, loss, time left."""

    def __init__(self, num_steps: int, done: int, stream: TextIO) -> None:
        self._bar = tqdm(
            total=num_steps, initial=done, file=stream, unit="step", delay=SHOW_AFTER_S,
            dynamic_ncols=True, leave=False,
        )  # fmt: skip
        self._meter = _Meter()

    def on_step(self, state: TrainState, loss: float, rate: float, num_tokens: int) -> None:
        self._meter.add(loss, num_tokens)
        self._bar.set_postfix_str(self._meter.text(), refresh=False)
        self._bar.update()

    def on_epoch(self, state: TrainState) -> None:
        self._bar.write(epoch_line(state), file=self._bar.fp)

    def close(self) -> None:
        self._bar.close()


class ProgressLines:
    """A line now and then, for logs."""

    def __init__(self, num_steps: int, done: int, stream: TextIO) -> None:
        self._num_steps, self._stream = num_steps, stream
        self._first_step, self._started = done, time.monotonic()
        self._printed = self._started
        self._meter = _Meter()

    def on_step(self, state: TrainState, loss: float, rate: float, num_tokens: int) -> None:
        self._meter.add(loss, num_tokens)
        now = time.monotonic()
        if now - self._printed >= LINE_EVERY_S:
            self._printed = now
            per_step = (now - self._started) / (state.step - self._first_step)
            left = per_step * (self._num_steps - state.step)
            self._print(
                f"step {state.step} of {self._num_steps}, {self._meter.text()}, {left:.0f} s left"
            )

    def on_epoch(self, state: TrainState) -> None:
        self._print(epoch_line(state))

    def close(self) -> None:
        pass

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class _Meter:
    """Tokens a second since the start, and a loss smoothed over some 20 steps."""

    def __init__(self) -> None:
        self._started, self._tokens, self._loss = time.monotonic(), 0, 0.0

    def add(self, loss: float, num_tokens: int) -> None:
        self._loss = loss if not self._tokens else 0.95 * self._loss + 0.05 * loss
        self._tokens += num_tokens

    def text(self) -> str:
        seconds = max(time.monotonic() - self._started, 1e-9)
        return f"{self._tokens / seconds:,.0f} tokens/s, loss {self._loss:.3f}"


class TensorBoardLog:
    """Curves for `tensorboard --logdir`."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def on_step(self, state: TrainState, loss: float, rate: float, num_tokens: int) -> None:
        self._writer.add_scalar("train/loss", loss, state.step)
        self._writer.add_scalar("train/learning_rate", rate, state.step)

    def on_epoch(self, state: TrainState) -> None:
        record = state.history[-1]
        for name in ("accuracy", "macro_f1", "nll"):
            self._writer.add_scalar(f"validation/{name}", record[name], state.step)

    def close(self) -> None:
        self._writer.close()


def watched(stream: TextIO) -> Watch:
    """Passes items on, with a bar on a terminal when they take long."""

    def watch(items: Sequence[Item], unit: str) -> Iterable[Item]:
        return tqdm(
            items, file=stream, unit=f" {unit}", delay=SHOW_AFTER_S, leave=False,
            disable=not stream.isatty(),
        )  # fmt: skip

    return watch


def progress_for(stream: TextIO, num_steps: int, done: int) -> ProgressBar | ProgressLines:
    kind = ProgressBar if stream.isatty() else ProgressLines
    return kind(num_steps, done, stream)


def epoch_line(state: TrainState) -> str:
    record = state.history[-1]
    best = ", best so far" if state.best_epoch == state.epoch else ""
    return (
        f"epoch {state.epoch}: train loss {record['train_loss']:.3f}, validation accuracy "
        f"{record['accuracy']:.2%}, macro F1 {record['macro_f1']:.2%}{best}"
    )
