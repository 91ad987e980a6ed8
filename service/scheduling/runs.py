"""One run of an engine, timed and counted; a fault of the engine is a result like any other."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from service.backends import Backend
from service.metrics import Metrics
from service.scheduling.fitting import FittedResult, Fitting
from service.scheduling.running import TextResult
from service.scheduling.tickets import Text

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """What an engine's thread reports: one result per text, None for a fault of the engine.

    Attributes:
        engine: its number.
        start, end: in time.monotonic().
    """

    engine: int
    texts: list[Text]
    results: Sequence[FittedResult]
    start: float
    end: float

    @property
    def good(self) -> bool:
        """Whether the engine answered at all, so that its time says something."""
        return any(isinstance(result, TextResult) for result in self.results)


def run_timed(
    engine: int,
    backend: Backend,
    texts: list[Text],
    pad_token_id: int,
    metrics: Metrics,
    fitting: Fitting,
) -> Run:
    """Runs texts of one kind; whatever the engine raises goes to the log."""
    start = time.monotonic()
    input_ids = [text.input_ids for text in texts]
    asked = [text.ticket.attention for text in texts]
    selections = [selection for selection in asked if selection is not None] or None
    try:
        outcome = fitting.run(backend, input_ids, selections, pad_token_id)
    except Exception:
        # Engines see numbers only, so their errors hold no text of users.
        log.exception("An engine failed on a run of %d texts", len(texts))
        return Run(engine, texts, [None] * len(texts), start, time.monotonic())
    end = time.monotonic()
    num_tokens, num_slots = outcome.num_tokens, outcome.num_slots
    metrics.compute.observe(end - start)
    metrics.run_texts.observe(len(texts))
    metrics.run_tokens.observe(num_tokens)
    metrics.real_tokens.inc(num_tokens)
    metrics.padding_tokens.inc(num_slots - num_tokens)
    if None in outcome.results:
        log.error("An engine answered NaN or infinity for a text of a run of %d", len(texts))
    return Run(engine, texts, outcome.results, start, end)
