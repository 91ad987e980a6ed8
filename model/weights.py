"""Between the network in PyTorch and the bundle on disk."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from model.bundle import (
    CONFIG,
    MODEL_CARD,
    REQUIRED,
    TOKENIZER,
    WEIGHTS,
    Bundle,
    Golden,
    Manifest,
    ProblemType,
    created_now,
    load_bundle,
    new_bundle,
    seal,
    weights_version,
)
from model.encoder import EncoderClassifier
from model.errors import BundleError
from model.packing import PackedRows, pack
from model.tokenizer import tokenizer_json


def as_tensors(rows: PackedRows) -> tuple[torch.Tensor, ...]:
    """The encoder's first four arguments."""
    arrays = (rows.input_ids, rows.position_ids, rows.sequence_ids, rows.cls_index)
    return tuple(torch.from_numpy(array) for array in arrays)


def load_encoder(bundle: Bundle) -> EncoderClassifier:
    """The bundle's network, in eval mode, float32 on CPU."""
    encoder = EncoderClassifier(bundle.config)
    try:
        encoder.load_state_dict(load_file(bundle.file(WEIGHTS)))
    except (SafetensorError, RuntimeError) as error:
        raise BundleError(f"{bundle.path / WEIGHTS} does not fit config.json: {error}") from None
    return encoder.eval()


def write_bundle(
    path: Path,
    encoder: EncoderClassifier,
    tokenizer: Tokenizer,
    *,
    name: str,
    labels: Sequence[str],
    problem_type: ProblemType = "single_label",
    provenance: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    model_card: str = "",
) -> Bundle:
    """Writes a network that was trained into a new bundle and reads it back."""
    with new_bundle(path) as draft:
        weights = {key: value.contiguous() for key, value in encoder.state_dict().items()}
        save_file(weights, draft / WEIGHTS)
        (draft / CONFIG).write_text(encoder.config.to_json(), encoding="utf-8")
        (draft / TOKENIZER).write_text(tokenizer_json(tokenizer), encoding="utf-8")
        (draft / MODEL_CARD).write_text(model_card, encoding="utf-8")
        manifest = Manifest(
            name=name,
            version=weights_version(draft / WEIGHTS),
            created=created_now(),
            labels=list(labels),
            problem_type=problem_type,
            max_tokens=encoder.config.max_position_embeddings,
            golden=_golden(encoder),
            provenance=dict(provenance or {}),
            metrics=dict(metrics or {}),
        )
        seal(draft, manifest, [*REQUIRED, MODEL_CARD])
    return load_bundle(path)


@torch.inference_mode()
def _golden(encoder: EncoderClassifier) -> Golden:
    """A made-up text and what the network says of it."""
    config = encoder.config
    length = min(config.max_position_embeddings, 12)
    input_ids = np.random.default_rng(0).integers(config.vocab_size, size=length).tolist()
    was_training = encoder.training
    logits, _ = encoder.eval()(*as_tensors(pack([input_ids], config.pad_token_id)))
    encoder.train(was_training)
    answer = logits[0].tolist()
    if not all(map(math.isfinite, answer)):
        raise BundleError("the network answers NaN or infinity: training went wrong")
    return Golden(input_ids=input_ids, logits=answer)
