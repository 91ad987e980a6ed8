"""Attention as PNG, drawn by matplotlib without a display.

L layers, H heads, Q queries, T keys.
"""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from heedful.attention import Attention
from heedful.pictures.cells import cells, clip
from heedful.pictures.focus import NOT_AN_EXPLANATION, title
from heedful.pictures.fonts import FontChoice

SCALE = "magma_r"
MOST_LABELS = 60
NAME_WIDTH = 20
LABEL_SIZE = 9
DOTS_PER_INCH = 150
GREY = "#555555"


class MissingGlyphWarning(UserWarning):
    """No font at hand has the glyphs of some labels; they are drawn as their positions."""


def map_png(
    attention: Attention,
    layer: int | None = None,
    head: int | None = None,
    *,
    font: Path | str | None = None,
) -> bytes:
    """A PNG of one map: queries downwards, keys to the right, tokens as labels, a value scale.

    Args:
        layer, head: by number; None means the mean over all there are.
        font: a font file to try first; None for installed fonts.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: no such layer or head here, or font is no font.

    Warns:
        MissingGlyphWarning: some labels stand as positions, as "#3".
    """
    matplotlib = _matplotlib()
    fonts = FontChoice(matplotlib, None if font is None else Path(font))
    weights = attention.map(layer, head)  # (Q, T)
    num_queries, num_keys = weights.shape
    cell = min(0.32, 11 / max(num_queries, num_keys))
    size = (max(cell * num_keys, 2.2) + 2.6, max(cell * num_queries, 2.2) + 2.2)
    figure = matplotlib.figure.Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap=SCALE, vmin=0, aspect="equal", interpolation="nearest")
    names = [clip(token.name, NAME_WIDTH) for token in attention.tokens]
    labels, notes = _drawable(names, fonts)
    for text in _name_ticks(axes.xaxis, [_downwards(label) for label in labels], fonts):
        text.set_rotation(0 if _runs_down(text.get_text()) else 90)
    _name_ticks(axes.yaxis, [labels[query] for query in attention.queries], fonts)
    axes.tick_params(length=2)
    axes.set_xlabel("key: attended to", color=GREY)
    axes.set_ylabel("query: attends", color=GREY)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8, pad=0.02)
    _entitle(figure, title(attention, layer, head), attention, fonts, notes)
    return _png(figure)


def grid_png(attention: Attention, *, font: Path | str | None = None) -> bytes:
    """A PNG with a small map for every layer (downwards) and head (to the right), on one scale.

    Raises as map_png does; small maps bear no token labels.
    """
    matplotlib = _matplotlib()
    fonts = FontChoice(matplotlib, None if font is None else Path(font))
    num_layers, num_heads = attention.weights.shape[:2]
    size = (1.25 * num_heads + 1.8, 1.25 * num_layers + 1.4)
    figure = matplotlib.figure.Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    grid = figure.subplots(num_layers, num_heads, squeeze=False)
    largest = float(attention.weights.max(initial=0)) or 1.0
    heads = ["mean of heads"] if attention.averaged else [f"head {n}" for n in attention.heads]
    image = None
    for axes, weights in zip(
        grid.flat, attention.weights.reshape(-1, *attention.weights.shape[2:]), strict=True
    ):
        image = axes.imshow(weights, cmap=SCALE, vmin=0, vmax=largest, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
    for axes, name in zip(grid[0], heads, strict=True):
        axes.set_title(name, fontsize=8, color=GREY)
    for axes, number in zip(grid[:, 0], attention.layers, strict=True):
        axes.set_ylabel(f"layer {number}", fontsize=8, color=GREY)
    figure.colorbar(image, ax=grid, label="attention weight", shrink=0.6, pad=0.02)
    _entitle(figure, "every layer and head", attention, fonts, ["Rows: query. Columns: key."])
    return _png(figure)


def _matplotlib() -> ModuleType:
    import matplotlib
    import matplotlib.figure
    import matplotlib.font_manager
    import matplotlib.ft2font

    module: ModuleType = matplotlib
    return module


def _drawable(names: Sequence[str], fonts: FontChoice) -> tuple[list[str], list[str]]:
    """Labels that can be drawn, and a note if some had to become positions."""
    missing = fonts.missing(names)
    if not missing:
        return list(names), []
    labels = [f"#{place}" if place in missing else name for place, name in enumerate(names)]
    warnings.warn(
        f"no font has the glyphs of {len(missing)} of {len(names)} tokens, which are drawn as "
        f"their positions ({', '.join(labels[place] for place in missing[:5])}"
        f"{', ...' if missing[5:] else ''}): name a font file that has them",
        MissingGlyphWarning,
        stacklevel=3,
    )
    return labels, ["#n: the token at position n, whose glyphs no font here has"]


def _name_ticks(axis: Any, labels: Sequence[str], fonts: FontChoice) -> list[Any]:
    """Names rows or columns by their tokens, thinned out where they would overlap; the labels."""
    step = -(-len(labels) // MOST_LABELS)
    places = range(0, len(labels), step)
    axis.set_ticks(places, [labels[place] for place in places])
    texts: list[Any] = axis.get_ticklabels()
    for text in texts:
        text.set_parse_math(False)  # a token may hold dollar signs
        text.set_fontproperties(fonts.properties(text.get_text()))
        text.set_fontsize(LABEL_SIZE)
    return texts


def _downwards(label: str) -> str:
    """A label under its column: Chinese runs downwards, as it is written; the rest is turned."""
    return "\n".join(label) if _runs_down(label) else label


def _runs_down(label: str) -> bool:
    letters = label.replace("\n", "")
    return cells(letters) == 2 * len(letters)


def _entitle(
    figure: Any, what: str, attention: Attention, fonts: FontChoice, notes: Sequence[str]
) -> None:
    """The picture's head line (what is shown, of which answer) and foot line (how to take it)."""
    answer = ""
    if attention.labels:
        answer = f": {attention.labels[0].label} {attention.labels[0].probability:.1%}"
    head_line = f"{attention.model}{answer}\n{what}".strip(":\n ")
    properties = fonts.properties(head_line) or fonts.properties(what)
    if fonts.properties(head_line) is None:
        head_line = what
    properties.set_size(11)
    figure.suptitle(head_line, fontproperties=properties).set_parse_math(False)
    figure.supxlabel("\n".join([*notes, NOT_AN_EXPLANATION]), fontsize=7, color=GREY)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
