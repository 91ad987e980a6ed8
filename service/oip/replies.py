"""From results to inference answers, outputs in the order they were asked for.

Letters: n texts, C classes, k named classes, L layers, H heads, t tokens.
"""

import json
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from heedful.oip import open_inference_pb2 as oip
from service.oip.requests import (
    ATTENTIONS,
    LABELS,
    LOGITS,
    PROBABILITIES,
    AskedOutput,
    InferQuestion,
)
from service.oip.tensors import OutputTensor, add_output
from service.request.scores import LabelScore, LabelScorer
from service.scheduling.running import TextResult
from service.servicer import Computed

LOST_TOKENS, CACHED = "lost_tokens", "cached"
# One list of scores per text, the most probable label first.
Scores = Sequence[Sequence[LabelScore]]
Value = Callable[[LabelScore], float]
VALUES: dict[str, Value] = {
    LOGITS: lambda score: score.logit,
    PROBABILITIES: lambda score: score.probability,
}


def fill_response(
    response: oip.ModelInferResponse,
    asked: InferQuestion,
    computed: Computed,
    scorer: LabelScorer,
) -> None:
    """Adds what was asked for to a response that says whose answer it is."""
    results = computed.outcome.results
    scores = [scorer.score(result.logits) for result in results]
    for output in asked.outputs:
        tensor = _tensor(output, results, scores, asked.question.top_k)
        add_output(response, tensor, typed=asked.typed)
    lost = [len_before - len_after for len_before, len_after in _lengths(computed)]
    if any(lost):
        response.parameters[LOST_TOKENS].string_param = json.dumps(lost)
    cached = [result.cached for result in results]
    if any(cached):
        response.parameters[CACHED].string_param = json.dumps(cached)


def _lengths(computed: Computed) -> list[tuple[int, int]]:
    return [(item.num_original_tokens, len(item.input_ids)) for item in computed.encodings]


def _tensor(
    output: AskedOutput, results: Sequence[TextResult], scores: Scores, top_k: int
) -> OutputTensor:
    if output.name == ATTENTIONS:
        return _attentions(results)
    if output.name == LABELS:
        chosen = [[score.label.encode() for score in text[:top_k]] for text in scores]
        return _table(LABELS, chosen)
    value = VALUES[output.name]
    if output.num_classes:
        named = [[_named(score, value) for score in text[: output.num_classes]] for text in scores]
        return _table(output.name, named)
    numbers = _by_index(scores, value)  # (n, C)
    return OutputTensor(output.name, numbers.shape, numbers.tobytes())


def _by_index(scores: Scores, value: Value) -> npt.NDArray[np.float32]:
    numbers = np.empty((len(scores), len(scores[0])), "<f4")
    for row, text in zip(numbers, scores, strict=True):
        for score in text:
            row[score.index] = value(score)
    return numbers


def _named(score: LabelScore, value: Value) -> bytes:
    return f"{value(score):f}:{score.index}:{score.label}".encode()


def _table(name: str, rows: list[list[bytes]]) -> OutputTensor:
    return OutputTensor(name, (len(rows), len(rows[0])), [data for row in rows for data in row])


def _attentions(results: Sequence[TextResult]) -> OutputTensor:
    # Present and of one shape: the question asked for them, of texts of one length.
    encoded = [result.attention for result in results if result.attention]
    shape = (len(encoded), *encoded[0].shape)  # (n, L, H, t, t)
    return OutputTensor(ATTENTIONS, shape, b"".join(item.data for item in encoded))
