"""Questions: from Python values to the contract's messages, refused early where they are wrong."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from heedful.errors import InvalidArgumentError
from heedful.v1 import classifier_pb2 as pb

Enum = TypeVar("Enum", bound=int)
# A text, a pair of texts read together, or ready-made token ids.
Text: TypeAlias = str | tuple[str, str] | Sequence[int]
Truncation = Literal["error", "head", "tail", "head_tail"]
AttentionType = Literal["float32", "float16", "uint8"]

TRUNCATIONS: dict[str, pb.Truncation] = {
    "error": pb.TRUNCATION_ERROR,
    "head": pb.TRUNCATION_HEAD,
    "tail": pb.TRUNCATION_TAIL,
    "head_tail": pb.TRUNCATION_HEAD_TAIL,
}
REDUCTIONS: dict[str | None, pb.Reduction] = {
    None: pb.REDUCTION_NONE,
    "mean": pb.REDUCTION_HEAD_MEAN,
}
ENCODINGS: dict[str, pb.AttentionEncoding] = {
    "float32": pb.ATTENTION_ENCODING_FLOAT32,
    "float16": pb.ATTENTION_ENCODING_FLOAT16,
    "uint8": pb.ATTENTION_ENCODING_UINT8_ROW_MAX,
}


@dataclass(frozen=True, kw_only=True)
class AttentionRequest:
    """Which attention weights to ask for; numbers count from 0, and empty means all.

    Attributes:
        layers: layer numbers, answered in this order.
        heads: head numbers, answered in this order.
        queries: token positions whose rows are wanted.
        reduction: "mean" averages the heads on the server.
        dtype: how weights travel: float32 exact; float16, error at most 2.5e-4; uint8, error at
            most 1/510 of the row's maximum, for pictures. They arrive as float32.
    """

    layers: Sequence[int] = ()
    heads: Sequence[int] = ()
    queries: Sequence[int] = ()
    reduction: Literal["mean"] | None = None
    dtype: AttentionType = "float32"


class ClassifyOptions(TypedDict, total=False):
    """What classify and classify_many take beside the text, as keywords.

    Attributes:
        attention: True for all weights, or an AttentionRequest for some; None, the default, for
            none, which is faster.
        top_k: how many labels to answer, the most probable first; 0, the default, for all.
        truncation: what to do with a text that is too long: "error", the default, refuses it;
            "head" keeps the beginning, "tail" the end, "head_tail" both and drops the middle.
        target_label: a label to answer even if it is not among the top_k.
        tokens: whether to answer the tokens; attention brings them unasked.
        model: the model's name, if the server serves several.
        version: its version.
    """

    attention: bool | AttentionRequest | None
    top_k: int
    truncation: Truncation
    target_label: str
    tokens: bool
    model: str
    version: str


class TokenizeOptions(TypedDict, total=False):
    """What tokenize takes beside the text, as keywords: as in ClassifyOptions."""

    truncation: Truncation
    model: str
    version: str


def classify_request(texts: Iterable[Text], options: ClassifyOptions) -> pb.ClassifyRequest:
    """The message for these texts.

    Raises:
        InvalidArgumentError: a text or option that no server could use.
        TypeError: an option that does not exist.
    """
    _refuse_unknown(options.keys(), ClassifyOptions.__annotations__)
    return pb.ClassifyRequest(
        inputs=[_input(text) for text in texts],
        model=_unicode(options.get("model", ""), "model"),
        version=_unicode(options.get("version", ""), "version"),
        top_k=_int32(options.get("top_k", 0), "top_k"),
        truncation=_choice(options.get("truncation", "error"), TRUNCATIONS, "truncation"),
        target_label=_unicode(options.get("target_label", ""), "target_label"),
        return_tokens=options.get("tokens", False),
        attention=_attention_options(options.get("attention")),
    )


def tokenize_request(texts: Iterable[Text], options: TokenizeOptions) -> pb.TokenizeRequest:
    """The message for these texts; raises as classify_request does."""
    _refuse_unknown(options.keys(), TokenizeOptions.__annotations__)
    return pb.TokenizeRequest(
        inputs=[_input(text) for text in texts],
        model=_unicode(options.get("model", ""), "model"),
        version=_unicode(options.get("version", ""), "version"),
        truncation=_choice(options.get("truncation", "error"), TRUNCATIONS, "truncation"),
    )


def texts_of(text: Text) -> tuple[str, ...]:
    """The text, the two of a pair, or nothing for token ids: what tokens' offsets count in."""
    if isinstance(text, str):
        return (text,)
    return tuple(part for part in text if isinstance(part, str))


def one(text: Text) -> Text:
    """The text itself; a list of texts is refused, which would otherwise look like token ids."""
    if not isinstance(text, str | tuple) and any(isinstance(part, str) for part in text):
        raise _wrong("this takes one text, and a pair as a tuple: use classify_many for a list")
    return text


def several(texts: Iterable[Text]) -> list[Text]:
    """The texts as a list; a lone string is refused, which would otherwise fall into letters."""
    if isinstance(texts, str):
        raise _wrong("this takes several texts: use classify for one, or put it into a list")
    return list(texts)


def _input(text: Text) -> pb.Input:
    if isinstance(text, str):
        return pb.Input(text=_unicode(text, "text"))
    if isinstance(text, tuple) and any(isinstance(part, str) for part in text):
        if len(text) != 2:
            raise _wrong(f"a pair holds two texts, and this one holds {len(text)}")
        first, second = (_unicode(part, "text") for part in text)
        return pb.Input(pair=pb.TextPair(first=first, second=second))
    return pb.Input(token_ids=pb.TokenIds(ids=_int32s(text, "token ids")))


def _attention_options(attention: bool | AttentionRequest | None) -> pb.AttentionOptions | None:
    if attention is None or attention is False:
        return None
    wanted = AttentionRequest() if attention is True else attention
    if not isinstance(wanted, AttentionRequest):
        raise _wrong(f"attention must be True or an AttentionRequest, got {wanted!r}")
    return pb.AttentionOptions(
        layers=_int32s(wanted.layers, "layers"),
        heads=_int32s(wanted.heads, "heads"),
        queries=_int32s(wanted.queries, "queries"),
        reduction=_choice(wanted.reduction, REDUCTIONS, "reduction"),
        encoding=_choice(wanted.dtype, ENCODINGS, "dtype"),
    )


def _unicode(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise _wrong(f"{name} must be a string, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise _wrong(
            f"{name} is not valid Unicode: it has the lone surrogate U+{code:04X} at character "
            f"{error.start}; decode it with its real encoding, or with errors='replace'"
        ) from None
    return text


def _int32s(values: object, name: str) -> list[int]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise _wrong(f"{name} must be a sequence of whole numbers, got {values!r}")
    return [_int32(value, name) for value in values]


def _int32(value: object, name: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # whatever the caller gave
    except TypeError:
        raise _wrong(f"{name} must be whole numbers, got {value!r}") from None
    if not -(2**31) <= number < 2**31:
        raise _wrong(f"{name} must fit into 32 bits, got {number}")
    return number


def _choice(value: Any, choices: Mapping[Any, Enum], name: str) -> Enum:
    if value not in choices:
        raise _wrong(f"{name} must be one of {list(choices)}, got {value!r}")
    return choices[value]


def _refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(known))}")


def _wrong(message: str) -> InvalidArgumentError:
    return InvalidArgumentError("INVALID_ARGUMENT", message)
