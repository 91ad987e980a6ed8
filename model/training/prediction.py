"""Logits of whole splits: the same batching whichever engine computes them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from model.encoder import EncoderClassifier
from model.packing import PackedRows, pack
from model.training.batches import EncodedTexts, cut_by_tokens
from model.training.config import TrainConfig
from model.weights import as_tensors

FloatArray = npt.NDArray[np.float32]
Run = Callable[[PackedRows], FloatArray]
Item = TypeVar("Item")


class Watch(Protocol):
    """Passes items on and may show how far they are; unit is what they are called."""

    def __call__(self, items: Sequence[Item], unit: str) -> Iterable[Item]: ...


def unwatched(items: Sequence[Item], unit: str) -> Iterable[Item]:
    return items


def predict(
    run: Run,
    texts: EncodedTexts,
    tokens_per_batch: int,
    pad_token_id: int,
    watch: Watch = unwatched,
) -> FloatArray:
    """Logits (B, C) of texts in their order.

    Args:
        run: packed rows to logits.
    """
    lengths = texts.lengths
    order = sorted(range(len(texts)), key=lambda index: -lengths[index])
    batches = cut_by_tokens(order, lengths, tokens_per_batch)
    answers = [
        run(pack([texts.input_ids[index] for index in batch], pad_token_id))
        for batch in watch(batches, "batches")
    ]
    logits = np.empty((len(texts), answers[0].shape[1]), dtype=np.float32)
    logits[[index for batch in batches for index in batch]] = np.concatenate(answers)
    return logits


def network_run(network: EncoderClassifier, config: TrainConfig) -> Run:
    """Runs the network as it is at the time of each call, in eval mode."""

    @torch.inference_mode()
    def run(rows: PackedRows) -> FloatArray:
        network.eval()
        with autocast(config):
            logits, _ = network(*(tensor.to(config.device) for tensor in as_tensors(rows)))
        array: FloatArray = logits.float().cpu().numpy()
        return array

    return run


# torch.autocast's own type says no more.
def autocast(config: TrainConfig) -> AbstractContextManager[Any]:
    """bfloat16 where the options want it: by itself only on a GPU."""
    if config.bf16 == "on" or (config.bf16 == "auto" and config.device == "cuda"):
        return torch.autocast(config.device, torch.bfloat16)
    return nullcontext()
