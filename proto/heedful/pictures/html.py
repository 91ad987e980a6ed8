"""Attention as one HTML file that needs nothing else: no server, no network, no library."""

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from heedful.attention import Attention
from heedful.pictures.colours import MAGMA
from heedful.pictures.focus import spans
from heedful.tokens import visible

SCRIPTS = ("weights.js", "canvas.js", "page.js")


def page(attention: Attention, layer: int | None = None, head: int | None = None) -> str:
    """The page as text, to be written as UTF-8; it opens on one layer and head, or their mean.

    Args:
        layer, head: by number; None means the mean over all there are.

    Raises:
        ValueError: no such layer or head in this answer.
    """
    attention.map(layer, head)
    style = _resource("page.css")
    script = "\n".join(map(_resource, SCRIPTS))
    # Only these two texts may run or style: were a token to slip through, it would stay inert.
    policy = (
        f"default-src 'none'; script-src '{_source_hash(script)}'; "
        f"style-src '{_source_hash(style)}'; base-uri 'none'; form-action 'none'"
    )
    data = _inert_json(_page_data(attention, layer, head))
    parts = {"policy": policy, "style": style, "script": script, "data": data}
    return re.sub(r"\{(policy|style|script|data)\}", lambda m: parts[m[1]], _resource("page.html"))


def save_page(
    attention: Attention, path: Path | str, layer: int | None = None, head: int | None = None
) -> None:
    """Writes the page to a file."""
    Path(path).write_text(page(attention, layer, head), encoding="utf-8", newline="\n")


def page_bytes(attention: Attention) -> int:
    """About how large the page is: a byte a weight, in base64."""
    return attention.weights.size * 4 // 3


def _page_data(attention: Attention, layer: int | None, head: int | None) -> dict[str, Any]:
    levels, row_max = _levels(attention)
    return {
        "model": attention.model,
        "version": attention.version,
        "labels": [
            {"label": score.label, "probability": score.probability} for score in attention.labels
        ],
        "texts": _texts(attention),
        "tokens": [
            {"name": token.name, "piece": visible(token.piece), "special": token.special}
            for token in attention.tokens
        ],
        "layers": attention.layers,
        "heads": attention.heads,
        "queries": attention.queries,
        "averaged": attention.averaged,
        "layer": _opening(layer, attention.layers, attention.weights.shape[0]),
        "head": _opening(head, attention.heads, attention.weights.shape[1]),
        "shape": attention.weights.shape,
        "levels": levels,
        "row_max": row_max,
        "colours": MAGMA,
    }


def _opening(number: int | None, numbers: tuple[int, ...], length: int) -> int | None:
    """The position the page opens on; an axis of one has nothing to average."""
    if length == 1:
        return 0
    return None if number is None else numbers.index(number)


def _levels(attention: Attention) -> tuple[str, str]:
    """Weights as bytes of 1/255 of their row's largest, and those largest, in base64."""
    row_max = attention.weights.max(axis=-1, keepdims=True, initial=0)  # (L, H, Q, 1)
    levels = np.rint(attention.weights * (255 / np.where(row_max > 0, row_max, 1)))
    return _base64(levels.astype("u1")), _base64(row_max.astype("<f4"))


def _texts(attention: Attention) -> list[dict[str, Any]]:
    """Each text cut into parts, with the keys that stand for each; cut here, where offsets count
    code points, and not in the page, where they would count UTF-16 units."""
    stretches = spans(attention)
    texts = []
    for segment, text in enumerate(attention.texts):
        parts: list[dict[str, Any]] = []
        place = 0
        for span in (span for span in stretches if span.segment == segment):
            if span.begin > place:
                parts.append({"text": visible(text[place : span.begin]), "keys": []})
            parts.append({"text": visible(text[span.begin : span.end]), "keys": span.keys})
            place = span.end
        parts.append({"text": visible(text[place:]), "keys": []})
        texts.append({"language": language(text), "parts": parts})
    return texts


def language(text: str) -> str:
    """The language that the text's script gives away, for the choice of glyphs; often none."""
    for name, script in (
        ("ja", "[\u3040-\u30ff]"),
        ("ko", "[\uac00-\ud7a3]"),
        ("zh", "[\u4e00-\u9fff]"),
    ):
        if re.search(script, text):
            return name
    return ""


def _inert_json(data: dict[str, Any]) -> str:
    """JSON in which no character can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _base64(array: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def _source_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _resource(name: str) -> str:
    return (files("heedful.pictures") / "page" / name).read_text(encoding="utf-8")
