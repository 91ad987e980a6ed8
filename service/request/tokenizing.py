"""Text to token ids beside the event loop: short texts at once, long ones in threads."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from model.errors import InvalidInputError
from model.tokenizer import Encoding, TextEncoder, Truncation
from service.errors import DeadlinePassedError, OverloadedError
from service.metrics import Metrics
from service.request.questions import Source

# Up to here, encoding takes about as long as handing it to a thread and back (0.2 ms).
INLINE_CHARACTERS = 500
RETRY_SECONDS = 1.0


class Tokenizing:
    """Encodes requests with bounded work waiting."""

    def __init__(
        self,
        encoder: TextEncoder,
        *,
        executor: ThreadPoolExecutor,
        max_waiting_characters: int,
        metrics: Metrics,
    ) -> None:
        self._encoder, self._executor = encoder, executor
        self._metrics = metrics
        self._max_waiting, self._waiting = max_waiting_characters, 0

    async def encode(
        self, sources: Sequence[Source], truncation: Truncation, deadline: float
    ) -> list[Encoding]:
        """Encodings in the order of the sources; deadline as in asyncio's loop.time().

        Raises:
            InvalidInputError: a source cannot be encoded; the message says which.
            OverloadedError: too much text waits for a thread.
            DeadlinePassedError: the deadline passed.
        """
        size = sum(map(num_characters, sources))
        if size <= INLINE_CHARACTERS:
            return self._encode(sources, truncation)
        if self._waiting and self._waiting + size > self._max_waiting:
            raise OverloadedError("characters of text", self._max_waiting, RETRY_SECONDS)
        abandoned = Event()
        self._waiting += size
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.get_running_loop().run_in_executor(
                    self._executor, self._encode, sources, truncation, abandoned
                )
        except TimeoutError:
            self._metrics.departed.labels("tokenizing").inc()
            raise DeadlinePassedError("tokenizing") from None
        except asyncio.CancelledError:
            self._metrics.departed.labels("tokenizing").inc()
            raise
        finally:
            abandoned.set()
            self._waiting -= size

    def _encode(
        self, sources: Sequence[Source], truncation: Truncation, abandoned: Event | None = None
    ) -> list[Encoding]:
        encodings: list[Encoding] = []
        for position, source in enumerate(sources):
            if abandoned is not None and abandoned.is_set():
                break  # nobody waits for the rest
            try:
                encodings.append(self._encode_one(source, truncation))
            except InvalidInputError as error:
                if len(sources) == 1:
                    raise
                raise InvalidInputError(f"input {position}: {error}") from None
        return encodings

    def _encode_one(self, source: Source, truncation: Truncation) -> Encoding:
        if isinstance(source, str):
            return self._encoder.encode(source, None, truncation)
        if isinstance(source, tuple):
            first, second = source
            return self._encoder.encode(first, second, truncation)
        return self._encoder.encode_ids(source)


def num_characters(source: Source) -> int:
    """How long a text or a pair is; ready-made token ids count as characters."""
    return sum(map(len, source)) if isinstance(source, tuple) else len(source)
