"""From protobuf requests to what the server works with; everything a caller can get wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from heedful.v1 import classifier_pb2 as pb
from model.bundle import Bundle
from model.errors import InvalidInputError
from model.tokenizer import Truncation
from service.errors import quoted
from service.request.attention import AttentionSelection, Encoding, choose, distinct

T = TypeVar("T")
# A text, a pair of texts, or token ids.
Source = str | tuple[str, str] | Sequence[int]

TRUNCATIONS: dict[int, Truncation] = {
    pb.TRUNCATION_ERROR: "error",
    pb.TRUNCATION_HEAD: "head",
    pb.TRUNCATION_TAIL: "tail",
    pb.TRUNCATION_HEAD_TAIL: "head_tail",
}
ENCODINGS: dict[int, Encoding] = {
    pb.ATTENTION_ENCODING_FLOAT32: "float32",
    pb.ATTENTION_ENCODING_FLOAT16: "float16",
    pb.ATTENTION_ENCODING_UINT8_ROW_MAX: "uint8",
}
REDUCTIONS: dict[int, bool] = {pb.REDUCTION_NONE: False, pb.REDUCTION_HEAD_MEAN: True}
NAMED_LABELS = 8


class Named(Protocol):
    """An enum as protoc makes it."""

    def keys(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Question:
    """A classify request that can be answered, as far as can be seen before tokenizing.

    Attributes:
        alike: whether attention is answered as one tensor, for which texts must be of one length.
    """

    sources: list[Source]
    truncation: Truncation
    top_k: int
    target: int | None
    with_tokens: bool
    attention: AttentionSelection | None
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads requests for one model; whatever cannot be used is an InvalidInputError.

    Attributes:
        max_inputs: of one request.
        max_text_bytes: of one text, checked before anything looks into it.
    """

    bundle: Bundle
    max_inputs: int
    max_text_bytes: int

    def question(self, request: pb.ClassifyRequest) -> Question:
        """Reads a classify request.

        Raises:
            InvalidInputError: something cannot be used as given.
        """
        if request.top_k < 0:
            raise InvalidInputError(f"top_k is {request.top_k}: give 0 for all labels, or more")
        return Question(
            sources=self.sources(request.inputs),
            truncation=self.truncation(request.truncation),
            top_k=request.top_k,
            target=self._target(request.target_label),
            with_tokens=request.return_tokens or request.HasField("attention"),
            attention=(
                self._selection(request.attention) if request.HasField("attention") else None
            ),
        )

    def sources(self, inputs: Sequence[pb.Input]) -> list[Source]:
        self.check_count(len(inputs))
        return [self._source(item, position) for position, item in enumerate(inputs)]

    def check_count(self, num_inputs: int) -> None:
        """Refuses a request with no inputs, or with too many."""
        if not num_inputs:
            raise InvalidInputError("the request has no inputs: give at least one")
        if num_inputs > self.max_inputs:
            raise InvalidInputError(
                f"the request has {num_inputs} inputs and at most {self.max_inputs} are taken: "
                "split it"
            )

    def truncation(self, value: int) -> Truncation:
        return _known(TRUNCATIONS, value, "truncation", pb.Truncation)

    def _source(self, item: pb.Input, position: int) -> Source:
        kind = item.WhichOneof("kind")
        if kind == "text":
            return self.bounded(item.text, position)
        if kind == "pair":
            first = self.bounded(item.pair.first, position)
            return first, self.bounded(item.pair.second, position)
        if kind == "token_ids":
            # Left as it is: the encoder looks at its length before reading it.
            ids: Sequence[int] = item.token_ids.ids
            return ids
        raise InvalidInputError(f"input {position} is unset: give a text, a pair or token ids")

    def bounded(self, text: str, position: int) -> str:
        """The text as it is; an InvalidInputError if it is too long to look into."""
        # Encoding a text to count its bytes is only needed where four bytes each may be too many.
        size = len(text)
        if 4 * size > self.max_text_bytes:
            size = len(text.encode()) if size <= self.max_text_bytes else size
            if size > self.max_text_bytes:
                raise InvalidInputError(
                    f"the text of input {position} is over {self.max_text_bytes} bytes: "
                    "send the part that matters"
                )
        return text

    def _target(self, label: str) -> int | None:
        labels = self.bundle.manifest.labels
        if not label:
            return None
        if label in labels:
            return labels.index(label)
        named = ", ".join(quoted(label) for label in labels[:NAMED_LABELS])
        more = len(labels) - NAMED_LABELS
        raise InvalidInputError(
            f"there is no label {quoted(label)}: the labels are {named}"
            + (f" and {more} more" if more > 0 else "")
        )

    def _selection(self, options: pb.AttentionOptions) -> AttentionSelection:
        config = self.bundle.config
        for query in options.queries:
            if query < 0:
                raise InvalidInputError(f"query {query} does not exist: tokens count from 0")
        return AttentionSelection(
            layers=choose(options.layers, config.num_hidden_layers, "layer"),
            heads=choose(options.heads, config.num_attention_heads, "head"),
            queries=distinct(options.queries, "query") or None,
            head_mean=_known(REDUCTIONS, options.reduction, "reduction", pb.Reduction),
            encoding=_known(
                ENCODINGS, options.encoding, "attention encoding", pb.AttentionEncoding
            ),
        )


def _known(table: dict[int, T], value: int, what: str, values: Named) -> T:
    if value not in table:
        names = ", ".join(values.keys())
        raise InvalidInputError(f"{what} {value} is not known: choose from {names}")
    return table[value]
