"""Answers as JSON, for programs: names are kept from release to release, new ones may join."""

from dataclasses import asdict
from typing import Any

from heedful import Attention, Classification


def answer_record(texts: tuple[str, ...], answer: Classification) -> dict[str, Any]:
    """One answer, beside the text or the two of a pair."""
    shown = {"text": texts[0]} if len(texts) == 1 else {"text": texts[0], "text_pair": texts[1]}
    return {
        **shown,
        "labels": [asdict(score) for score in answer.labels],
        "truncated": asdict(answer.truncated) if answer.truncated else None,
        "model": answer.model,
        "version": answer.version,
        "backend": answer.backend,
        "precision": answer.precision,
        "cached": answer.cached,
        "timings": asdict(answer.timings),
    }


def attention_record(attention: Attention) -> dict[str, Any]:
    """Attention: weights nested as [layer][head][query][key], and what stands at each place."""
    return {
        "tokens": [asdict(token) for token in attention.tokens],
        "layers": list(attention.layers),
        "heads": list(attention.heads),
        "heads_averaged": attention.averaged,
        "queries": list(attention.queries),
        "weights": attention.weights.tolist(),
    }
