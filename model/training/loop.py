"""The training loop: windows of batches, steps, evaluation, early stopping, best weights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from model.bundle import ProblemType
from model.encoder import EncoderClassifier
from model.errors import InvalidInputError
from model.tokenizer import SPECIAL_TOKENS, UNKNOWN
from model.training.batches import (
    Batch,
    EncodedTexts,
    make_batch,
    plan_epoch,
    windows_of,
)
from model.training.config import TrainConfig
from model.training.metrics import score
from model.training.optimizer import learning_rate, make_optimizer
from model.training.prediction import FloatArray, Watch, autocast, network_run, predict, unwatched

NUM_SPECIAL = len(SPECIAL_TOKENS)  # the trainer of every tokenizer gives them the lowest ids
UNKNOWN_ID = SPECIAL_TOKENS.index(UNKNOWN)


@dataclass
class TrainState:
    """How far training is; everything here is in a checkpoint.

    Attributes:
        epoch: epochs finished, evaluation included.
        window: steps done within the running epoch.
        step: steps done in all.
        loss_sum, num_texts: over the running epoch.
        best_score, best_epoch: the best validation so far; epochs count from 1, 0 is none.
        history: one record per finished epoch.
    """

    epoch: int = 0
    window: int = 0
    step: int = 0
    loss_sum: float = 0.0
    num_texts: int = 0
    best_score: float = float("-inf")
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        values["best_score"] = self.best_score if self.best_epoch else None
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainState":
        best = values["best_score"]
        return cls(**{**values, "best_score": float("-inf") if best is None else best})


class Listener(Protocol):
    """Hears how training goes: a progress bar, a log."""

    def on_step(self, state: TrainState, loss: float, rate: float, num_tokens: int) -> None:
        """After a step: its mean loss, its learning rate, the real tokens it computed."""
        ...

    def on_epoch(self, state: TrainState) -> None:
        """After an evaluation: its record is the last of state.history."""
        ...


@dataclass(frozen=True)
class Task:
    """What is learned: encoded texts of two splits, and what their targets mean."""

    train: EncodedTexts
    validation: EncodedTexts
    labels: Sequence[str]
    problem_type: ProblemType


class Trainer:
    """One network on its way through the epochs; `run` may stop and be called again."""

    def __init__(
        self,
        network: EncoderClassifier,
        task: Task,
        config: TrainConfig,
        watch: Watch = unwatched,
    ) -> None:
        self.device = torch.device(config.device)
        self.network = network.to(self.device)
        self.task, self.config, self._watch = task, config, watch
        self.optimizer = make_optimizer(network, config)
        self.state = TrainState()
        self.best_weights = copy_weights(network)
        self.pad_token_id = network.config.pad_token_id
        self.num_steps = sum(len(self.plan(epoch)) for epoch in range(config.epochs))

    def plan(self, epoch: int) -> list[list[list[int]]]:
        """The epoch's steps, each a window of batches of text indices."""
        config = self.config
        batches = plan_epoch(self.task.train.lengths, config.tokens_per_batch, config.seed, epoch)
        return windows_of(batches, config.accumulation_steps)

    def run(
        self,
        listeners: Sequence[Listener] = (),
        should_stop: Callable[[], bool] = lambda: False,
        save: Callable[[], None] = lambda: None,
    ) -> bool:
        """Trains to the end and puts the best weights back; False if it was stopped before."""
        while self.state.epoch < self.config.epochs and not self._gave_up():
            if not self._finish_epoch(listeners, should_stop, save):
                save()
                return False
            save()
        self.network.load_state_dict(self.best_weights)
        return True

    def _gave_up(self) -> bool:
        patience = self.config.patience
        return 0 < patience <= self.state.epoch - self.state.best_epoch

    def _finish_epoch(
        self,
        listeners: Sequence[Listener],
        should_stop: Callable[[], bool],
        save: Callable[[], None],
    ) -> bool:
        state, every = self.state, self.config.checkpoint_steps
        windows = self.plan(state.epoch)
        self.network.train()
        while state.window < len(windows):
            if should_stop():
                return False
            rate = learning_rate(state.step, self.num_steps, self.config)
            loss, num_tokens = self.take_step(windows[state.window], rate)
            state.window += 1
            state.step += 1
            for listener in listeners:
                listener.on_step(state, loss, rate, num_tokens)
            if every and state.step % every == 0 and state.window < len(windows):
                save()
        if should_stop():
            return False
        self._evaluate()
        for listener in listeners:
            listener.on_epoch(state)
        return True

    def take_step(self, window: Sequence[Sequence[int]], rate: float) -> tuple[float, int]:
        """One step of the optimizer over a window of batches: mean loss and real tokens."""
        num_texts = sum(len(indices) for indices in window)
        loss_sum, num_tokens = self.add_gradients(window, num_texts)
        if not math.isfinite(loss_sum):
            raise InvalidInputError(
                f"the loss became {loss_sum} at step {self.state.step + 1}: training diverged. "
                "Choose a lower learning rate or a longer warm-up"
            )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.config.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.state.loss_sum += loss_sum
        self.state.num_texts += num_texts
        return loss_sum / num_texts, num_tokens

    def add_gradients(self, window: Sequence[Sequence[int]], num_texts: int) -> tuple[float, int]:
        """Adds the gradients of a window's mean loss: its summed loss and real tokens.

        The losses are summed over the window and divided once by its texts, so that every text
        counts the same however the window is cut into batches.
        """
        loss_sum, num_tokens = 0.0, 0
        for indices in window:
            batch = make_batch(self.task.train, indices, self.pad_token_id)
            loss = self.batch_loss(batch)
            (loss / num_texts).backward()  # type: ignore[no-untyped-call]
            loss_sum += loss.item()
            num_tokens += batch.num_tokens
        return loss_sum, num_tokens

    def batch_loss(self, batch: Batch) -> Tensor:
        """Sum of the texts' losses, a scalar."""
        input_ids, *places = (tensor.to(self.device) for tensor in batch.inputs)
        input_ids = hide_words(input_ids, self.config.word_dropout)
        with autocast(self.config):
            logits, _ = self.network(input_ids, *places)  # (B, C)
        return summed_loss(
            logits.float(),
            batch.targets.to(self.device),
            self.task.problem_type,
            self.config.label_smoothing,
        )

    def logits(self, texts: EncodedTexts) -> FloatArray:
        """Logits (B, C) of texts by the weights as they are."""
        # Twice as much as in training fits: nothing is kept for a backward pass.
        budget = 2 * self.config.tokens_per_batch
        run = network_run(self.network, self.config)
        return predict(run, texts, budget, self.pad_token_id, self._watch)

    def _evaluate(self) -> None:
        state, task = self.state, self.task
        logits = self.logits(task.validation)
        figures = score(logits, task.validation.targets.numpy(), task.labels, task.problem_type)
        state.history.append(
            {
                "epoch": state.epoch + 1,
                "step": state.step,
                "train_loss": state.loss_sum / state.num_texts,
                **{name: figures[name] for name in ("accuracy", "macro_f1", "nll")},
            }
        )
        state.epoch, state.window = state.epoch + 1, 0
        state.loss_sum, state.num_texts = 0.0, 0
        if figures[self.config.metric] > state.best_score:
            state.best_score, state.best_epoch = figures[self.config.metric], state.epoch
            self.best_weights = copy_weights(self.network)


def hide_words(input_ids: Tensor, probability: float) -> Tensor:
    """Puts the unknown token in place of some ordinary ones."""
    if not probability:
        return input_ids
    hidden = torch.rand(input_ids.shape).to(input_ids.device) < probability
    return input_ids.masked_fill(hidden & (input_ids >= NUM_SPECIAL), UNKNOWN_ID)


def summed_loss(
    logits: Tensor, targets: Tensor, problem_type: ProblemType, label_smoothing: float
) -> Tensor:
    """Sum over the texts of cross entropy, or of the mean binary cross entropy over labels."""
    if problem_type == "single_label":
        return functional.cross_entropy(
            logits, targets, reduction="sum", label_smoothing=label_smoothing
        )
    smoothed = targets * (1.0 - label_smoothing) + 0.5 * label_smoothing
    losses = functional.binary_cross_entropy_with_logits(
        logits, smoothed, reduction="none"
    )  # (B, C)
    return losses.mean(1).sum()


def copy_weights(network: EncoderClassifier) -> dict[str, Tensor]:
    """A copy on the CPU that later steps leave alone."""
    return {
        name: value.detach().to("cpu", copy=True) for name, value in network.state_dict().items()
    }
