"""Which texts are computed together: shuffled, of like length within a batch, cut by tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.bundle import ProblemType
from model.data.dataset import Example
from model.errors import DataError, InvalidInputError
from model.packing import pack
from model.tokenizer import TextEncoder, Truncation
from model.weights import as_tensors

# Texts are sorted by length within so many batches: rows stay short, and order stays random.
MEGABATCH = 40


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Token ids and targets of a split.

    Attributes:
        input_ids: one list per text.
        targets: (B,) int64 class numbers, or (B, C) float32 of 0 and 1 for multi-label.
        num_truncated: texts that were longer than the classifier takes.
    """

    input_ids: list[list[int]]
    targets: Tensor
    num_truncated: int

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> list[int]:
        return [len(ids) for ids in self.input_ids]


@dataclass(frozen=True, slots=True)
class Batch:
    """Packed texts (the encoder's first four arguments), their targets, and how much they are."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    num_texts: int
    num_tokens: int


def encode_texts(
    examples: Iterable[Example],
    encoder: TextEncoder,
    labels: Sequence[str],
    problem_type: ProblemType,
    truncation: Truncation,
) -> EncodedTexts:
    """Encodes a split; a DataError names the row of a text without tokens or with a new label."""
    input_ids: list[list[int]] = []
    encoded: list[Example] = []
    num_truncated = 0
    for example in examples:
        try:
            encoding = encoder.encode(example.text, example.text_pair, truncation)
        except InvalidInputError as error:
            raise DataError(f"row {example.row}: {error}") from None
        encoded.append(example)
        input_ids.append(encoding.input_ids)
        num_truncated += encoding.truncated
    if not encoded:
        raise DataError("there are no texts to encode")
    return EncodedTexts(input_ids, target_tensor(encoded, labels, problem_type), num_truncated)


def target_tensor(
    examples: Sequence[Example], labels: Sequence[str], problem_type: ProblemType
) -> Tensor:
    """Class numbers (B,), or a row of 0 and 1 per text (B, C) for multi-label."""
    number = {label: index for index, label in enumerate(labels)}
    for example in examples:
        if not number.keys() >= set(example.labels):
            raise DataError(
                f"row {example.row} has the label {', '.join(example.labels)!r}, and the "
                f"classifier knows {', '.join(labels)}"
            )
    if problem_type == "single_label":
        return torch.tensor([number[example.labels[0]] for example in examples])
    targets = torch.zeros(len(examples), len(labels))
    for row, example in enumerate(examples):
        targets[row, [number[label] for label in example.labels]] = 1.0
    return targets


def plan_epoch(
    lengths: Sequence[int], tokens_per_batch: int, seed: int, epoch: int
) -> list[list[int]]:
    """Batches of text indices for one epoch; the same seed and epoch give the same plan."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    length_of = np.asarray(lengths)
    ends = np.cumsum(length_of[order])
    megabatch = ends // (tokens_per_batch * MEGABATCH)  # (B,) which one each text falls in
    by_length = order[np.lexsort((length_of[order], megabatch))]
    batches = cut_by_tokens(by_length.tolist(), lengths, tokens_per_batch)
    return [batches[index] for index in rng.permutation(len(batches))]


def cut_by_tokens(
    order: Sequence[int], lengths: Sequence[int], tokens_per_batch: int
) -> list[list[int]]:
    """Cuts an order of texts into batches of at most so many tokens, or of one longer text."""
    batches: list[list[int]] = []
    room = 0
    for index in order:
        if lengths[index] > room or not batches:
            batches.append([])
            room = tokens_per_batch
        batches[-1].append(index)
        room -= lengths[index]
    return batches


def windows_of(batches: Sequence[list[int]], accumulation_steps: int) -> list[list[list[int]]]:
    """Groups batches into steps of the optimizer; the last one may have fewer."""
    return [
        list(batches[start : start + accumulation_steps])
        for start in range(0, len(batches), accumulation_steps)
    ]


def make_batch(texts: EncodedTexts, indices: Sequence[int], pad_token_id: int) -> Batch:
    """Packs some texts of a split."""
    rows = pack([texts.input_ids[index] for index in indices], pad_token_id)
    return Batch(as_tensors(rows), texts.targets[list(indices)], len(indices), rows.num_tokens)
