"""What a model takes and answers, in the protocol's words: one table for metadata and settings."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.oip import open_inference_pb2 as oip
from model.bundle import Bundle
from service.oip.requests import ATTENTIONS, LABELS, LOGITS, PROBABILITIES, TEXT, TOKEN_IDS
from service.versions.models import ServedModel

ANY = -1
DATA_TYPES = {"BYTES": oip.TYPE_STRING, "INT64": oip.TYPE_INT64, "FP32": oip.TYPE_FP32}
USAGE = {
    "inputs": f"exactly one: {TEXT} (UTF-8, [n] or [n,1]) or {TOKEN_IDS} ([n,t], or [t] for one "
    "text; special tokens included, no padding)",
    "outputs": f"none named means {LOGITS}, {PROBABILITIES} and {LABELS}; {LABELS} are [n,k], the "
    "most probable first, k as the parameter top_k says (1)",
    ATTENTIONS: "only if named: [n,layer,head,query,key]; several texts must have equally many "
    "tokens",
    "parameters": "timeout (microseconds), truncation (error, head, tail, head_tail), top_k",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the model; dims without the axis of the texts."""

    name: str
    datatype: str
    dims: tuple[int, ...]


def inputs() -> tuple[Tensor, ...]:
    return Tensor(TEXT, "BYTES", (1,)), Tensor(TOKEN_IDS, "INT64", (ANY,))


def outputs(bundle: Bundle, *, attention: bool) -> tuple[Tensor, ...]:
    num_labels, config = len(bundle.manifest.labels), bundle.config
    maps = (config.num_hidden_layers, config.num_attention_heads, ANY, ANY)
    plain = (
        Tensor(LOGITS, "FP32", (num_labels,)),
        Tensor(PROBABILITIES, "FP32", (num_labels,)),
        Tensor(LABELS, "BYTES", (ANY,)),
    )
    return (*plain, Tensor(ATTENTIONS, "FP32", maps)) if attention else plain


def model_metadata(
    served: ServedModel, other_versions: Sequence[str], max_inputs: int
) -> oip.ModelMetadataResponse:
    """The model's tensors, and its labels and limits as properties."""
    bundle, backend = served.bundle, served.backend
    manifest = bundle.manifest
    properties = {
        **USAGE,
        "labels": json.dumps(list(manifest.labels), ensure_ascii=False),
        "problem_type": manifest.problem_type,
        "max_texts": str(max_inputs),
        "max_tokens": str(manifest.max_tokens),
        "device": backend.device,
        "precision": backend.precision,
    }
    return oip.ModelMetadataResponse(
        name=served.name,
        versions=[served.version, *other_versions],
        platform=backend.name,
        inputs=[_metadata(tensor) for tensor in inputs()],
        outputs=[_metadata(tensor) for tensor in _outputs_of(served)],
        properties=properties,
    )


def model_config(served: ServedModel, max_inputs: int) -> oip.ModelConfig:
    """The model's settings, as far as load generators read them."""
    return oip.ModelConfig(
        name=served.name,
        platform=served.backend.name,
        backend=served.backend.name,
        max_batch_size=max_inputs,
        input=[
            oip.ModelInput(
                name=tensor.name,
                data_type=DATA_TYPES[tensor.datatype],
                dims=tensor.dims,
                optional=True,
            )
            for tensor in inputs()
        ],
        output=[
            oip.ModelOutput(
                name=tensor.name, data_type=DATA_TYPES[tensor.datatype], dims=tensor.dims
            )
            for tensor in _outputs_of(served)
        ],
        dynamic_batching=oip.ModelDynamicBatching(),
        model_transaction_policy=oip.ModelTransactionPolicy(decoupled=False),
    )


def _outputs_of(served: ServedModel) -> tuple[Tensor, ...]:
    return outputs(served.bundle, attention=served.backend.has_attention)


def _metadata(tensor: Tensor) -> oip.ModelMetadataResponse.TensorMetadata:
    return oip.ModelMetadataResponse.TensorMetadata(
        name=tensor.name, datatype=tensor.datatype, shape=[ANY, *tensor.dims]
    )
