"""Texts to serve: random words of one token each, with the mix of lengths the figures are for.

60 % of them have a median of 24 tokens, 25 % of 51, 15 % of 234, cut at a model's longest.
"""

import statistics

import numpy as np

from service.scheduling.waiting import LENGTH_STEP
from service.tuning import made_up_lengths
from service.versions.instances import CPU_RUN_TOKENS

NUM_TEXTS = 640
SPECIAL_TOKENS = 2
WORDS = ["words", "of", "no", "meaning"]


def made_up_texts(longest: int) -> list[str]:
    rng = np.random.default_rng(0)
    lengths = made_up_lengths("mixed", NUM_TEXTS, longest)
    return [" ".join(rng.choice(WORDS, size=max(1, n - SPECIAL_TOKENS))) for n in lengths]


def num_tokens(text: str) -> int:
    return len(text.split()) + SPECIAL_TOKENS


def mean_tokens(texts: list[str]) -> float:
    return statistics.mean(map(num_tokens, texts))


def runs_of(texts: list[str]) -> list[list[str]]:
    """Texts of like length in runs of the server's size, all known beforehand."""
    runs: list[list[str]] = []
    room = 0
    for text in sorted(texts, key=lambda text: num_tokens(text) // LENGTH_STEP):
        tokens = num_tokens(text)
        if tokens > room:
            runs.append([])
            room = CPU_RUN_TOKENS
        runs[-1].append(text)
        room -= tokens
    return runs
