"""Answers: from the contract's messages to plain records."""

from collections.abc import Iterable, Sequence

from heedful.attention import Attention
from heedful.decoding import decode_weights
from heedful.errors import AnswerError
from heedful.records import LabelScore, Timings, TruncationLoss
from heedful.requests import Text, texts_of
from heedful.results import Classification, ModelInfo, ModelVersion, Tokenization
from heedful.tokens import Token
from heedful.v1 import classifier_pb2 as pb

PROBLEM_TYPES: dict[int, str] = {
    pb.PROBLEM_TYPE_SINGLE_LABEL: "single_label",
    pb.PROBLEM_TYPE_MULTI_LABEL: "multi_label",
}


def classifications(response: pb.ClassifyResponse, texts: Sequence[Text]) -> list[Classification]:
    """One record per text, in their order.

    Raises:
        AnswerError: the answer does not fit the question or contradicts itself.
    """
    _same_number(len(response.results), len(texts))
    timings = Timings(
        response.timings.tokenize_seconds,
        response.timings.queue_seconds,
        response.timings.compute_seconds,
        response.timings.total_seconds,
    )
    return [
        _classification(result, response, timings, texts_of(text))
        for result, text in zip(response.results, texts, strict=True)
    ]


def _classification(
    result: pb.Classification,
    response: pb.ClassifyResponse,
    timings: Timings,
    texts: tuple[str, ...],
) -> Classification:
    if not result.labels:
        raise AnswerError("the server answered no label")
    labels = tuple(map(_label, result.labels))
    tokens = _tokens(result.tokens)
    attention = None
    if result.HasField("attention"):
        attention = _attention(result.attention, response, tokens, texts, labels)
    return Classification(
        labels=labels,
        tokens=tokens,
        truncated=_truncated(result),
        attention=attention,
        timings=timings,
        model=response.model,
        version=response.version,
        backend=response.backend,
        precision=response.precision,
        cached=result.cached,
    )


def _attention(
    message: pb.Attention,
    response: pb.ClassifyResponse,
    tokens: tuple[Token, ...],
    texts: tuple[str, ...],
    labels: tuple[LabelScore, ...],
) -> Attention:
    averaged = message.reduction == pb.REDUCTION_HEAD_MEAN
    num_heads = 1 if averaged else len(message.heads)
    expected = (len(message.layers), num_heads, len(message.queries), len(tokens))
    if tuple(message.shape) != expected:
        raise AnswerError(f"attention has shape {list(message.shape)} where {expected} was named")
    return Attention(
        weights=decode_weights(message),
        layers=tuple(message.layers),
        heads=tuple(message.heads),
        queries=tuple(message.queries),
        tokens=tokens,
        averaged=averaged,
        texts=texts,
        labels=labels,
        model=response.model,
        version=response.version,
    )


def tokenizations(response: pb.TokenizeResponse, num_texts: int) -> list[Tokenization]:
    """One record per text, in their order; an AnswerError if their number is wrong."""
    _same_number(len(response.results), num_texts)
    return [Tokenization(_tokens(item.tokens), _truncated(item)) for item in response.results]


def model_info(response: pb.GetModelResponse) -> ModelInfo:
    """The description of the model."""
    return ModelInfo(
        model=response.model,
        version=response.version,
        created=response.created,
        labels=tuple(response.labels),
        problem_type=PROBLEM_TYPES.get(response.problem_type, "unspecified"),
        max_tokens=response.max_tokens,
        max_inputs=response.max_inputs,
        max_attention_bytes=response.max_attention_bytes,
        vocab_size=response.vocab_size,
        hidden_size=response.hidden_size,
        num_hidden_layers=response.num_hidden_layers,
        num_attention_heads=response.num_attention_heads,
        backend=response.backend,
        device=response.device,
        precision=response.precision,
        attention=response.attention,
    )


def model_versions(response: pb.ListModelsResponse) -> list[ModelVersion]:
    return [
        ModelVersion(
            row.model,
            row.version,
            pb.ModelState.Name(row.state).removeprefix("MODEL_STATE_").lower()
            if row.state in pb.ModelState.values()
            else "unspecified",
            row.reason,
            row.is_default,
            row.backend,
            row.device,
            row.precision,
        )
        for row in response.models
    ]


def _label(message: pb.LabelScore) -> LabelScore:
    return LabelScore(
        message.label,
        message.index,
        message.probability,
        message.logit,
        message.applies if message.HasField("applies") else None,
    )


def _tokens(messages: Iterable[pb.Token]) -> tuple[Token, ...]:
    return tuple(
        Token(item.id, item.piece, item.text, item.begin, item.end, item.segment, item.special)
        for item in messages
    )


def _truncated(message: pb.Classification | pb.Tokenization) -> TruncationLoss | None:
    if not message.HasField("truncated"):
        return None
    loss = message.truncated
    return TruncationLoss(loss.original_tokens, loss.lost_tokens, loss.lost_characters)


def _same_number(num_answers: int, num_texts: int) -> None:
    if num_answers != num_texts:
        raise AnswerError(f"the server answered {num_answers} inputs where {num_texts} were sent")
