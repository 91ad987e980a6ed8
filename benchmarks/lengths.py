"""Lengths of texts to measure with: real ones where they are at hand, made-up ones anywhere."""

import gzip
import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"


def long_tailed(count: int, seed: int = 0) -> list[int]:
    """Log-normal lengths with a mean of about 39 and at most 180 tokens."""
    lengths = np.random.default_rng(seed).lognormal(mean=3.35, sigma=0.8, size=count)
    return [int(length) for length in np.clip(lengths, 3, 180)]


def imdb(count: int, seed: int = 0, longest: int = 512) -> tuple[str, list[int]]:
    """Lengths of IMDB reviews in WordPieces, cut at `longest`, and where they are from.

    Without the data set: log-normal with its median of 234 and its 99th percentile of 1,204.
    """
    rng = np.random.default_rng(seed)
    path = DATA / "imdb" / "train.jsonl.gz"
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line in file]
        # 1.3 WordPieces a word: the data set's own statistics, without training a tokenizer.
        words = np.array([len(texts[i].split()) for i in rng.permutation(len(texts))[:count]])
        return "imdb", [int(n) for n in np.clip(words * 1.3, 3, longest)]
    sigma = np.log(1204 / 234) / 2.326
    lengths = rng.lognormal(mean=np.log(234), sigma=sigma, size=count)
    return "imdb-like", [int(n) for n in np.clip(lengths, 3, longest)]
