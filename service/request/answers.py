"""From results to protobuf answers, built in place so that nothing large is copied twice."""

from collections.abc import Sequence

from heedful.v1 import classifier_pb2 as pb
from model.bundle import Bundle
from model.tokenizer import Encoding
from service.backends import Backend
from service.request.attention import AttentionSelection, EncodedAttention
from service.request.questions import Source
from service.request.scores import LabelScore

ENCODINGS = {
    "float32": pb.ATTENTION_ENCODING_FLOAT32,
    "float16": pb.ATTENTION_ENCODING_FLOAT16,
    "uint8": pb.ATTENTION_ENCODING_UINT8_ROW_MAX,
}
PROBLEM_TYPES = {
    "single_label": pb.PROBLEM_TYPE_SINGLE_LABEL,
    "multi_label": pb.PROBLEM_TYPE_MULTI_LABEL,
}


def add_scores(answer: pb.Classification, scores: Sequence[LabelScore]) -> None:
    add = answer.labels.add
    for score in scores:
        added = add(
            label=score.label,
            index=score.index,
            probability=score.probability,
            logit=score.logit,
        )
        if score.applies is not None:
            added.applies = score.applies


def add_truncation(answer: pb.Classification | pb.Tokenization, encoding: Encoding) -> None:
    """Says what truncation took, if it took anything."""
    if encoding.truncated:
        answer.truncated.original_tokens = encoding.num_original_tokens
        answer.truncated.lost_tokens = encoding.num_original_tokens - len(encoding.input_ids)
        answer.truncated.lost_characters = encoding.num_lost_characters


def add_tokens(
    answer: pb.Classification | pb.Tokenization, encoding: Encoding, source: Source
) -> None:
    """Adds the tokens, each with the part of the source it stands for."""
    texts = (source,) if isinstance(source, str) else source
    add = answer.tokens.add
    for token in encoding.tokens:
        text = texts[token.segment] if token.end else ""
        add(
            id=token.id,
            piece=token.piece,
            text=text[token.begin : token.end] if isinstance(text, str) else "",
            begin=token.begin,
            end=token.end,
            segment=token.segment,
            special=token.special,
        )


def add_attention(
    answer: pb.Classification, encoded: EncodedAttention, selection: AttentionSelection
) -> None:
    attention = answer.attention
    attention.layers.extend(selection.layers)
    attention.heads.extend(selection.heads)
    queries = selection.queries
    attention.queries.extend(range(encoded.shape[2]) if queries is None else queries)
    attention.shape.extend(encoded.shape)
    attention.encoding = ENCODINGS[selection.encoding]
    attention.reduction = pb.REDUCTION_HEAD_MEAN if selection.head_mean else pb.REDUCTION_NONE
    attention.data = encoded.data
    attention.row_max = encoded.row_max


def describe(
    bundle: Bundle, backend: Backend, max_inputs: int, max_attention_bytes: int
) -> pb.GetModelResponse:
    """The model, its limits and what its backend can do."""
    manifest, config = bundle.manifest, bundle.config
    return pb.GetModelResponse(
        model=manifest.name,
        version=manifest.version,
        created=manifest.created,
        labels=manifest.labels,
        problem_type=PROBLEM_TYPES[manifest.problem_type],
        max_tokens=manifest.max_tokens,
        max_inputs=max_inputs,
        max_attention_bytes=max_attention_bytes,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        backend=backend.name,
        device=backend.device,
        precision=backend.precision,
        attention=backend.has_attention,
    )
