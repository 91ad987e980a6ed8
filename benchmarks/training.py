"""Training real tokens/s: packed rows against padded batches of the same texts.

Run: python -m benchmarks.training
"""

import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.lengths import imdb, long_tailed
from model.config import PRESETS, EncoderConfig
from model.encoder import EncoderClassifier
from model.packing import PackedRows, Span, pack
from model.weights import as_tensors

VOCAB_SIZE, RUNS = 8000, 3


def padded(texts: list[list[int]]) -> PackedRows:
    """One text a row, padded to the longest: what a batch usually is."""
    longest = max(map(len, texts))
    input_ids = np.zeros((len(texts), longest), dtype=np.int64)
    sequence_ids = np.zeros_like(input_ids)
    for row, text in enumerate(texts):
        input_ids[row, : len(text)], sequence_ids[row, : len(text)] = text, 1
    position_ids = np.broadcast_to(np.arange(longest), input_ids.shape).copy()
    cls_index = np.arange(len(texts)) * longest
    spans = tuple(Span(row, 0, len(text)) for row, text in enumerate(texts))
    return PackedRows(input_ids, position_ids, sequence_ids, cls_index, spans)


def step(encoder: EncoderClassifier, optimizer: torch.optim.Optimizer, rows: PackedRows) -> None:
    logits, _ = encoder(*as_tensors(rows))
    F.cross_entropy(logits, torch.zeros(len(rows.spans), dtype=torch.int64)).backward()
    optimizer.step()
    optimizer.zero_grad()


def tokens_per_second(batches: list[PackedRows], preset: str) -> float:
    """Real tokens a second over all batches, once."""
    torch.manual_seed(0)
    encoder = EncoderClassifier(
        EncoderConfig(vocab_size=VOCAB_SIZE, num_labels=2, **PRESETS[preset])
    )
    optimizer = torch.optim.AdamW(encoder.parameters())
    step(encoder, optimizer, batches[0])
    start = time.perf_counter()
    for rows in batches:
        step(encoder, optimizer, rows)
    return sum(rows.num_tokens for rows in batches) / (time.perf_counter() - start)


def compare(name: str, lengths: list[int], batch_size: int, preset: str) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.integers(1, VOCAB_SIZE, size=length).tolist() for length in lengths]
    groups = [texts[at : at + batch_size] for at in range(0, len(texts), batch_size)]
    ways = {"padded": [padded(group) for group in groups], "packed": [pack(g) for g in groups]}
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(RUNS):  # taken in turns, so that a busy moment hits both
        for way, batches in ways.items():
            speeds[way].append(tokens_per_second(batches, preset))
    medians = {way: statistics.median(values) for way, values in speeds.items()}
    for way, batches in ways.items():
        slots = sum(rows.num_slots for rows in batches)
        padding = 1 - sum(rows.num_tokens for rows in batches) / slots
        print(f"  {name}, {preset}, {way}: {medians[way]:8,.0f} tokens/s, {padding:.0%} padding")
    print(f"  {name}, {preset}: packed / padded = {medians['packed'] / medians['padded']:.2f}")


def main() -> None:
    print(f"Training real tokens/s, median of {RUNS} runs, {torch.get_num_threads()} threads:")
    compare("long-tailed, batches of 64", long_tailed(128), 64, "tiny")
    name, lengths = imdb(64)
    compare(f"{name} cut at 512, batches of 32", lengths, 32, "tiny")
    _, lengths = imdb(64, longest=512)
    compare(f"{name} cut at 512, batches of 32", lengths, 32, "small")


if __name__ == "__main__":
    main()
