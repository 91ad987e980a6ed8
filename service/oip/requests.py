"""From inference requests to what the server works with; everything a caller can get wrong.

Letters: n texts, t tokens.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from heedful.oip import open_inference_pb2 as oip
from model.bundle import Bundle
from model.errors import InvalidInputError
from model.tokenizer import Truncation
from service.errors import quoted
from service.oip.parameters import refuse_unknown, whole_number, word
from service.oip.tensors import InputTensor, is_typed, read_inputs
from service.request.attention import AttentionSelection
from service.request.questions import Question, Reader, Source

TEXT, TOKEN_IDS = "text", "input_ids"
LOGITS, PROBABILITIES, LABELS, ATTENTIONS = "logits", "probabilities", "labels", "attentions"
OUTPUTS = (LOGITS, PROBABILITIES, LABELS, ATTENTIONS)
# What is answered to callers who name nothing: attentions would be megabytes nobody asked for.
UNASKED = (LOGITS, PROBABILITIES, LABELS)

CLASSIFICATION, TIMEOUT, TRUNCATION, TOP_K = "classification", "timeout", "truncation", "top_k"
# Sent by perf_analyzer whatever it asks for; it means nothing where a request has one answer.
MEANINGLESS = "triton_enable_empty_final_response"


@dataclass(frozen=True, slots=True)
class AskedOutput:
    """An output to answer; num_classes is 0 for the tensor itself, or how many classes to name."""

    name: str
    num_classes: int = 0


@dataclass(frozen=True, slots=True)
class InferQuestion:
    """A request that can be answered, as far as can be seen before tokenizing."""

    question: Question
    outputs: list[AskedOutput]
    typed: bool


def timeout_seconds(request: oip.ModelInferRequest) -> float | None:
    """How long the caller waits, as its parameter says in microseconds; None if it says nothing."""
    microseconds = whole_number(request.parameters, TIMEOUT)
    return microseconds / 1e6 if microseconds else None


def read_request(request: oip.ModelInferRequest, reader: Reader) -> InferQuestion:
    """Reads a request.

    Raises:
        InvalidInputError: something cannot be used as given.
    """
    given = [name for name in request.parameters if name != MEANINGLESS]
    refuse_unknown(given, (TIMEOUT, TRUNCATION, TOP_K), "the request")
    outputs = _outputs(request)
    wanted = any(output.name == ATTENTIONS for output in outputs)
    question = Question(
        sources=_sources(request, reader),
        truncation=_truncation(request),
        top_k=whole_number(request.parameters, TOP_K) or 1,
        target=None,
        with_tokens=False,
        attention=_everything(reader.bundle) if wanted else None,
        alike=wanted,
    )
    return InferQuestion(question, outputs, is_typed(request))


def _truncation(request: oip.ModelInferRequest) -> Truncation:
    policies: tuple[Truncation, ...] = get_args(Truncation)
    chosen = word(request.parameters, TRUNCATION, policies, "error")
    return next(policy for policy in policies if policy == chosen)


def _outputs(request: oip.ModelInferRequest) -> list[AskedOutput]:
    if not request.outputs:
        return [AskedOutput(name) for name in UNASKED]
    outputs = [_output(asked) for asked in request.outputs]
    names = [output.name for output in outputs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"the output {quoted(name)} is asked for twice: name it once")
    return outputs


def _output(asked: oip.ModelInferRequest.InferRequestedOutputTensor) -> AskedOutput:
    if asked.name not in OUTPUTS:
        raise InvalidInputError(
            f"there is no output {quoted(asked.name)}: choose from {', '.join(OUTPUTS)}"
        )
    has_classes = asked.name in (LOGITS, PROBABILITIES)
    known = (CLASSIFICATION,) if has_classes else ()
    refuse_unknown(asked.parameters, known, f"the output {asked.name}")
    return AskedOutput(asked.name, whole_number(asked.parameters, CLASSIFICATION))


def _sources(request: oip.ModelInferRequest, reader: Reader) -> list[Source]:
    names = [tensor.name for tensor in request.inputs]
    if len(names) != 1 or names[0] not in (TEXT, TOKEN_IDS):
        # As many as fit a message; a request may hold thousands.
        given = ", ".join(quoted(name) for name in names[:4]) or "none"
        raise InvalidInputError(
            f"give exactly one input, {TEXT} or {TOKEN_IDS}; the request has {given}"
            + (" and more" if len(names) > 4 else "")
        )
    (tensor,) = read_inputs(request)
    return _texts(tensor, reader) if tensor.name == TEXT else _token_ids(tensor, reader)


def _texts(tensor: InputTensor, reader: Reader) -> list[Source]:
    shape, elements = tensor.shape, tensor.elements
    if not isinstance(elements, list):
        raise InvalidInputError(f"the input {TEXT} must be of datatype BYTES")
    if not (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)):
        raise InvalidInputError(f"the input {TEXT} has shape {list(shape)}: send [n] or [n,1]")
    reader.check_count(len(elements))
    return [reader.bounded(_decoded(data, at), at) for at, data in enumerate(elements)]


def _decoded(data: bytes, position: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(f"the text of input {position} is not UTF-8") from None


def _token_ids(tensor: InputTensor, reader: Reader) -> list[Source]:
    shape, elements = tensor.shape, tensor.elements
    if not isinstance(elements, np.ndarray):
        raise InvalidInputError(f"the input {TOKEN_IDS} must be of datatype INT64 or INT32")
    if len(shape) not in (1, 2):
        raise InvalidInputError(
            f"the input {TOKEN_IDS} has shape {list(shape)}: send [n,t] for n texts of t tokens "
            "each, or [t] for one text; texts of other lengths go into requests of their own"
        )
    num_texts, num_tokens = shape if len(shape) == 2 else (1, *shape)
    reader.check_count(num_texts)
    longest = reader.bundle.manifest.max_tokens
    if not 0 < num_tokens <= longest:
        raise InvalidInputError(
            f"each text has {num_tokens} token ids and the model takes 1 to {longest}; token ids "
            "are never truncated here"
        )
    return list(elements.reshape(num_texts, num_tokens).tolist())


def _everything(bundle: Bundle) -> AttentionSelection:
    config = bundle.config
    return AttentionSelection(
        layers=tuple(range(config.num_hidden_layers)),
        heads=tuple(range(config.num_attention_heads)),
        queries=None,
        head_mean=False,
        encoding="float32",
    )
