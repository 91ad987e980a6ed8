"""The way of one request: read, tokenize, run, answer."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from heedful.v1 import classifier_pb2 as pb
from model.bundle import Bundle
from model.errors import InvalidInputError
from model.tokenizer import Encoding, Truncation
from service.backends import Backend
from service.config import ServerConfig
from service.errors import AttentionTooLargeError, UnsupportedError
from service.metrics import Metrics
from service.request import answers
from service.request.allowance import Allowance
from service.request.asking import Asking
from service.request.attention import AttentionSelection
from service.request.cache import AnswerShelf
from service.request.guessing import TokenGuess
from service.request.questions import Question, Reader, Source
from service.request.reserve import Reserve
from service.request.scores import LabelScorer
from service.request.tokenizing import Tokenizing, num_characters
from service.scheduler import Scheduler
from service.scheduling.tickets import Outcome
from service.statistics import Statistics

# More token messages than this are built in a thread (about 1 ms of work).
INLINE_TOKENS = 500
# A twentieth of what one thread tokenizes, and what a text costs beside its characters.
LOOKED_CHARACTERS_PER_SECOND, LOOK_CHARACTERS = 50_000, 50


@dataclass(slots=True)
class Call:
    """One call's times: started and answering in time.perf_counter(), deadline in monotonic()."""

    deadline: float
    started: float = field(default_factory=time.perf_counter)
    # What the answer's attention is charged to, and how much of it was.
    reserve: Reserve | None = None
    reserved: int = 0
    # When the results were there and the answer began to be built.
    answering: float | None = None

    def shorten(self, seconds: float) -> None:
        """Takes a deadline from now for the call's own, if it is the earlier one."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def charge(self, num_bytes: int) -> None:
        """Charges attention before it is computed; an OverloadedError if there is no room."""
        if self.reserve is not None:
            self.reserve.take(num_bytes)
            self.reserved += num_bytes

    def let_go(self) -> None:
        """The answer has left, or there is none."""
        if self.reserve is not None:
            self.reserve.give_back(self.reserved)
            self.reserved = 0


@dataclass(frozen=True, slots=True)
class Computed:
    """What a question came to: encodings and results in the order of its sources."""

    encodings: list[Encoding]
    outcome: Outcome
    tokenize_seconds: float


class ClassifierServicer:
    """Answers for one version of one model, which models.py chose.

    Attributes:
        reader: checks what callers send against this model and the server's limits.
        scorer: turns logits into labels.
        statistics: what it has done so far.
    """

    def __init__(
        self,
        bundle: Bundle,
        backend: Backend,
        scheduler: Scheduler,
        *,
        config: ServerConfig,
        executor: ThreadPoolExecutor,
        metrics: Metrics,
        shelf: AnswerShelf | None = None,
    ) -> None:
        manifest = bundle.manifest
        self._bundle, self._backend, self._scheduler = bundle, backend, scheduler
        self._config, self._executor, self._metrics = config, executor, metrics
        self._asking = Asking(scheduler, shelf, metrics)
        self._guess = TokenGuess(manifest.max_tokens)
        self._looks = Allowance(LOOKED_CHARACTERS_PER_SECOND)
        self.reader = Reader(bundle, config.max_inputs, config.max_text_bytes)
        self.scorer = LabelScorer(manifest.labels, manifest.problem_type)
        self.statistics = Statistics()
        self._tokenizing = Tokenizing(
            bundle.text_encoder(),
            executor=executor,
            max_waiting_characters=config.max_tokenize_characters,
            metrics=metrics,
        )

    async def classify(self, request: pb.ClassifyRequest, call: Call) -> pb.ClassifyResponse:
        """Classifies a request's inputs; all are answered or none is."""
        question = self.reader.question(request)
        computed = await self.compute(question, call)
        encodings, outcome = computed.encodings, computed.outcome
        response = pb.ClassifyResponse(
            model=self._bundle.manifest.name,
            version=self._bundle.manifest.version,
            backend=self._backend.name,
            precision=self._backend.precision,
        )
        await self._fill(response, question, encodings, outcome)
        timings = response.timings
        timings.tokenize_seconds = computed.tokenize_seconds
        timings.queue_seconds = outcome.queue_seconds
        timings.compute_seconds = outcome.compute_seconds
        timings.total_seconds = time.perf_counter() - call.started
        return response

    async def compute(self, question: Question, call: Call) -> Computed:
        """The way of every question, whatever protocol it came by; all or nothing."""
        try:
            computed = await self._compute(question, call)
        except BaseException:
            self.statistics.fail.add(time.perf_counter() - call.started)
            raise
        call.answering = time.perf_counter()
        seconds = self._metrics.model_seconds.labels(self._bundle.manifest.name)
        seconds.observe(call.answering - call.started)
        self.statistics.answered(
            call.answering - call.started,
            num_texts=len(computed.encodings),
            queue_seconds=computed.outcome.queue_seconds,
            tokenize_seconds=computed.tokenize_seconds,
            compute_seconds=computed.outcome.compute_seconds,
        )
        return computed

    async def _compute(self, question: Question, call: Call) -> Computed:
        if question.attention and not self._backend.has_attention:
            raise UnsupportedError(
                f"this bundle answers no attention with {self._backend.name}: ask without, or "
                "serve a bundle that has attention.onnx"
            )
        lengths = self._guess.lengths(question.sources)
        door = lengths, question.attention is not None, call.deadline
        if self._asking.has_cache and self._scheduler.door_refusal(*door):
            kept = await self._look(question, call)
            if kept is not None:
                return kept
        self._scheduler.check_door(*door)
        encodings, tokenize_seconds = await self._encode(
            question.sources, question.truncation, call
        )
        if question.attention:
            needed = self._check_attention(question.attention, encodings, alike=question.alike)
            call.charge(needed)
        outcome = await self._asking.classify(
            [encoding.input_ids for encoding in encodings],
            attention=question.attention,
            deadline=call.deadline,
        )
        return Computed(encodings, outcome, tokenize_seconds)

    async def _look(self, question: Question, call: Call) -> Computed | None:
        """The answer that the cache alone can give, whatever the queue does; None if it cannot.

        Only tokens tell, and tokenizing for requests that are refused nevertheless takes from
        those that are not. So vain looks are rationed, and one that finds an answer is free.
        """
        size = sum(map(num_characters, question.sources)) + LOOK_CHARACTERS * len(question.sources)
        if question.attention or not self._looks.take(size):
            return None
        encodings, tokenize_seconds = await self._encode(
            question.sources, question.truncation, call
        )
        outcome = self._asking.kept([encoding.input_ids for encoding in encodings])
        if outcome is None:
            return None
        self._looks.give_back(size)
        return Computed(encodings, outcome, tokenize_seconds)

    async def tokenize(self, request: pb.TokenizeRequest, call: Call) -> pb.TokenizeResponse:
        """Splits a request's inputs into tokens."""
        sources = self.reader.sources(request.inputs)
        truncation = self.reader.truncation(request.truncation)
        encodings, _ = await self._encode(sources, truncation, call)
        call.answering = time.perf_counter()
        manifest = self._bundle.manifest
        response = pb.TokenizeResponse(model=manifest.name, version=manifest.version)
        results = [response.results.add() for _ in sources]
        await self._add_tokens(results, encodings, sources)
        return response

    async def get_model(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        """Describes the model."""
        config = self._config
        return answers.describe(
            self._bundle, self._backend, config.max_inputs, config.max_attention_bytes
        )

    async def _encode(
        self, sources: Sequence[Source], truncation: Truncation, call: Call
    ) -> tuple[list[Encoding], float]:
        start = time.perf_counter()
        encodings = await self._tokenizing.encode(sources, truncation, call.deadline)
        seconds = time.perf_counter() - start
        self._guess.learn(sources, encodings)
        self._metrics.tokenize.observe(seconds)
        return encodings, seconds

    def _check_attention(
        self, selection: AttentionSelection, encodings: Sequence[Encoding], *, alike: bool
    ) -> int:
        """Refuses what cannot be answered, before it is computed; gives the answer's bytes."""
        lengths = {len(encoding.input_ids) for encoding in encodings}
        if alike and len(lengths) > 1:
            raise InvalidInputError(
                f"the texts have {min(lengths)} to {max(lengths)} tokens, and their attentions do "
                "not fit into one tensor: ask for the attentions of one text at a time"
            )
        needed = 0
        for position, encoding in enumerate(encodings):
            num_tokens = len(encoding.input_ids)
            selection.check_queries(num_tokens, f"input {position}")
            needed += selection.estimate_bytes(num_tokens)
        allowed = self._config.max_attention_bytes
        if needed > allowed:
            raise AttentionTooLargeError(needed, allowed)
        return needed

    async def _fill(
        self,
        response: pb.ClassifyResponse,
        question: Question,
        encodings: Sequence[Encoding],
        outcome: Outcome,
    ) -> None:
        results = [response.results.add() for _ in encodings]
        for answer, result in zip(results, outcome.results, strict=True):
            scores = self.scorer.score(result.logits, question.top_k, question.target)
            answers.add_scores(answer, scores)
            answer.cached = result.cached
            if result.attention and question.attention:
                answers.add_attention(answer, result.attention, question.attention)
        if question.with_tokens:
            await self._add_tokens(results, encodings, question.sources)
        else:
            for answer, encoding in zip(results, encodings, strict=True):
                answers.add_truncation(answer, encoding)

    async def _add_tokens(
        self,
        results: Sequence[pb.Classification | pb.Tokenization],
        encodings: Sequence[Encoding],
        sources: Sequence[Source],
    ) -> None:
        def add() -> None:
            for answer, encoding, source in zip(results, encodings, sources, strict=True):
                answers.add_truncation(answer, encoding)
                answers.add_tokens(answer, encoding, source)

        if sum(len(encoding.input_ids) for encoding in encodings) <= INLINE_TOKENS:
            add()
        else:
            await asyncio.get_running_loop().run_in_executor(self._executor, add)
