"""Callers who wait for their texts: told results, refusals and the end, in the event loop only."""

from model.errors import HeedfulError
from service.errors import HopelessDeadlineError, OverloadedError
from service.metrics import Metrics
from service.scheduling.forecast import Forecast
from service.scheduling.runs import Run
from service.scheduling.tickets import Text, Ticket, work_of


class Callers:
    """The tickets that are open, and counters of those given up."""

    def __init__(self, forecast: Forecast, metrics: Metrics) -> None:
        self._forecast, self._metrics = forecast, metrics
        self._open: set[Ticket] = set()

    def came(self, ticket: Ticket) -> None:
        """A request was admitted."""
        self._open.add(ticket)

    def went(self, ticket: Ticket) -> None:
        """A request has ended, for whatever reason."""
        self._open.discard(ticket)
        if not ticket.missing:
            return
        in_vain = zip(ticket.texts, ticket.results, strict=True)
        self._metrics.wasted_tokens.inc(sum(text.num_tokens for text, done in in_vain if done))
        if ticket.future.cancelled():
            self._metrics.departed.labels(ticket.stage).inc()
        elif ticket.future.done():
            ticket.future.exception()  # a caller that left just now will not look at it

    def refused(self, refusal: HeedfulError, stage: str) -> None:
        """Counts a request that was not admitted; overload is counted where it is told."""
        if not isinstance(refusal, OverloadedError):
            self._metrics.departed.labels(stage).inc()

    def tell(self, run: Run) -> None:
        """Gives the results of a run to those who wait for them."""
        for text, result in zip(run.texts, run.results, strict=True):
            if text.ticket.future.done():
                self._metrics.wasted_tokens.inc(text.num_tokens)
            text.ticket.receive(text, result, run.start, run.end)

    def give_up(self, texts: list[Text], now: float) -> None:
        """Tells callers that they would be answered too late."""
        for text in texts:
            ticket = text.ticket
            if not ticket.future.done():
                needed = self._forecast.seconds(work_of([text]), text.with_attention)
                ticket.future.set_exception(HopelessDeadlineError(needed, ticket.deadline - now))
                self._metrics.departed.labels("queued").inc()

    def dismiss(self, refusal: HeedfulError) -> None:
        """Tells all who still wait why there will be no answer."""
        for ticket in self._open:
            if not ticket.future.done():
                ticket.future.set_exception(refusal)
