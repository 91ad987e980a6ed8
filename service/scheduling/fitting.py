"""Fits runs into the device's memory: what is too much at once is run in smaller parts."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from model.errors import HeedfulError
from service.backends import Backend
from service.backends.failures import Failure, device_failure
from service.errors import DeviceLostError, DeviceMemoryError
from service.metrics import Metrics
from service.request.attention import AttentionSelection
from service.scheduling.running import RunOutcome, TextResult, run_texts

log = logging.getLogger(__name__)

# Of a text: what the engine said, why it could not, or None for an answer that is no number.
FittedResult = TextResult | HeedfulError | None


@dataclass(slots=True)
class FittedRun:
    """Results in the order of the texts, and what was computed for them."""

    results: list[FittedResult]
    num_tokens: int = 0
    num_slots: int = 0


class Fitting:
    """The memory of one model's engines, as experience has it; used by their threads at once.

    Attributes:
        lost: what the device died of, empty while it lives. Nothing is run on it any more.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.lost = ""
        self._metrics = metrics
        # Of plain runs, and of those with attention, which need far more.
        self._max_tokens = {False: math.inf, True: math.inf}

    def run(
        self,
        backend: Backend,
        texts: Sequence[Sequence[int]],
        selections: Sequence[AttentionSelection] | None,
        pad_token_id: int,
    ) -> FittedRun:
        """Runs texts as run_texts does, in parts where they would not fit or do not fit.

        Raises:
            Exception: whatever the engine raises that has nothing to do with its device.
        """
        run = FittedRun([None] * len(texts))
        kind = selections is not None
        left = list(range(len(texts)))
        while left:
            part = self._first_part(left, texts, kind)
            chosen = [texts[index] for index in part]
            asked = None if selections is None else [selections[index] for index in part]
            # The error is gone by now, and with it the memory that its frames held.
            outcome = self._try(backend, chosen, asked, pad_token_id)
            if isinstance(outcome, RunOutcome):
                run.num_tokens += outcome.rows.num_tokens
                run.num_slots += outcome.rows.num_slots
                for index, result in zip(part, outcome.results, strict=True):
                    run.results[index] = result
            elif outcome == "memory" and len(part) > 1:
                self._learn(sum(map(len, chosen)), kind)
                continue  # with fewer of them
            else:
                for index in part:
                    lost = outcome == "lost"
                    run.results[index] = (
                        DeviceLostError() if lost else DeviceMemoryError(len(texts[index]))
                    )
            del left[: len(part)]
        return run

    def _try(
        self,
        backend: Backend,
        texts: list[Sequence[int]],
        selections: list[AttentionSelection] | None,
        pad_token_id: int,
    ) -> RunOutcome | Failure:
        if self.lost:
            return "lost"
        try:
            return run_texts(backend, texts, selections, pad_token_id)
        except Exception as error:
            failure = device_failure(error)
            if failure is None:
                raise
            if failure == "memory":
                self._metrics.out_of_memory.inc()
                log.warning(
                    "%s lacks memory for a run of %d texts, %d tokens",
                    *(backend.device, len(texts), sum(map(len, texts))),
                )
            else:
                log.exception("%s is lost", backend.device)
                self.lost = f"{backend.device} is lost: {type(error).__name__}"
            return failure

    def _learn(self, num_tokens: int, with_attention: bool) -> None:
        """Remembers that so many are too many: a longer run is cut before it is tried."""
        allowed = max(1, num_tokens // 2)
        if allowed < self._max_tokens[with_attention]:
            self._max_tokens[with_attention] = allowed
            kind = "with attention " if with_attention else ""
            log.warning("runs %sare of at most %d tokens from now on", kind, allowed)

    def _first_part(
        self, left: list[int], texts: Sequence[Sequence[int]], with_attention: bool
    ) -> list[int]:
        """Of indices the first that fit together; at least one, however long its text is."""
        tokens = 0
        for place, index in enumerate(left):
            tokens += len(texts[index])
            if place and tokens > self._max_tokens[with_attention]:
                return left[:place]
        return list(left)
