"""Attention as text: the words one token attends to, and the map as coloured cells.

Q queries, T keys.
"""

from collections.abc import Sequence

from heedful.attention import Attention
from heedful.decoding import FloatArray
from heedful.pictures.cells import cells, clip, pad, plain
from heedful.pictures.colours import ASCII_RAMP, Depth, ascii_mark, paint
from heedful.pictures.focus import Span, spans, title
from heedful.tokens import visible

NAME_WIDTH = 14
HEADER_HEIGHT = 7
BAR_WIDTH = 24


def draw_map(
    attention: Attention,
    layer: int | None = None,
    head: int | None = None,
    *,
    width: int = 80,
    height: int = 64,
    depth: Depth = "none",
) -> str:
    """The map of one layer and head, or the mean over them, as lines for a terminal.

    Args:
        layer, head: by number; None means the mean over all there are.
        width: cells in a line; keys that do not fit are left out and counted.
        height: most rows; queries beyond them are left out and counted.
        depth: colours to use; "none" draws with signs.
    """
    weights = attention.map(layer, head)  # (Q, T)
    names = [token.name for token in attention.tokens]
    margin = min(max(cells(plain(names[query])) for query in attention.queries), NAME_WIDTH) + 1
    shown = min(len(names), max((width - margin) // 2, 1))
    largest = float(weights.max(initial=0)) or 1.0
    lines = [f"{title(attention, layer, head)}: rows attend, columns are attended to"]
    lines += [" " * margin + line for line in _header(names[:shown])]
    for query, row in zip(attention.queries, weights[:height, :shown], strict=False):
        name = pad(clip(names[query], margin - 1), margin - 1, right=True)
        lines.append(f"{name} {''.join(_cell(weight / largest, depth) for weight in row)}")
    lines += ["", " " * margin + _legend(largest, depth)]
    if shown < len(names) or height < len(weights):
        rows = min(height, len(weights))
        lines.append(f"Shown: {rows} of {len(weights)} rows, {shown} of {len(names)} columns.")
    return "\n".join(lines)


def draw_text(
    attention: Attention,
    layer: int | None = None,
    head: int | None = None,
    *,
    query: int | None = None,
    depth: Depth = "none",
) -> str:
    """The text, shaded by how much one token attends to each part of it; bars without colours.

    Args:
        layer, head: by number; None means the mean over all there are.
        query: position of the token that attends; None means the first that was asked for.
        depth: colours to use.
    """
    query = attention.queries[0] if query is None else query
    if query not in attention.queries:
        raise ValueError(f"token {query} is not among the queries {list(attention.queries)}")
    row = attention.map(layer, head)[attention.queries.index(query)]  # (T,)
    name = attention.tokens[query].name
    lines = [f"What {name} attends to ({title(attention, layer, head)}):", ""]
    parts = spans(attention) if attention.texts else []
    if depth != "none" and parts:
        lines += [*_shaded(attention.texts, parts, row, depth), "", _most(attention, row)]
    else:
        lines += _bars(attention, row)
    lines.append(_special_mass(attention, row))
    return "\n".join(lines)


def _header(names: Sequence[str]) -> list[str]:
    """The names written downwards, ending above their columns; each column is two cells."""
    shown = [plain(name) for name in names]
    shown = [
        name if len(name) <= HEADER_HEIGHT else name[: HEADER_HEIGHT - 1] + "…" for name in shown
    ]
    height = max(map(len, shown))
    rows = zip(*(" " * (height - len(name)) + name for name in shown), strict=True)
    return ["".join(pad(character, 2) for character in row).rstrip() for row in rows]


def _cell(share: float, depth: Depth) -> str:
    return ascii_mark(share) * 2 if depth == "none" else paint("  ", share, depth)


def _legend(largest: float, depth: Depth) -> str:
    if depth == "none":
        return f"0 [{ASCII_RAMP}] {largest:.2f}"
    steps = "".join(paint(" ", step / 23, depth) for step in range(24))
    return f"0 {steps} {largest:.2f}"


def _shaded(texts: tuple[str, ...], parts: list[Span], row: FloatArray, depth: Depth) -> list[str]:
    """Each text on a line, its parts on the colour of their weight."""
    weights = [float(row[list(part.keys)].sum()) for part in parts]
    largest = max(weights) or 1.0
    lines = []
    for segment, text in enumerate(texts):
        line, place = "  ", 0
        for part, weight in zip(parts, weights, strict=True):
            if part.segment == segment:
                shown = visible(text[part.begin : part.end])
                line += visible(text[place : part.begin]) + paint(shown, weight / largest, depth)
                place = part.end
        lines.append(line + visible(text[place:]))
    return [*lines, "", f"  {_legend(largest, depth)}"]


def _most(attention: Attention, row: FloatArray) -> str:
    top = _content_by_weight(attention, row)[:5]
    return "  most on " + ", ".join(f"{attention.tokens[key].name} {row[key]:.2f}" for key in top)


def _content_by_weight(attention: Attention, row: FloatArray) -> list[int]:
    content = [key for key, token in enumerate(attention.tokens) if not token.special]
    return sorted(content, key=lambda key: -row[key])


def _bars(attention: Attention, row: FloatArray) -> list[str]:
    """The content tokens with the largest weights, each with a bar."""
    content = _content_by_weight(attention, row)
    top = content[:10]
    largest = float(row[top].max(initial=0)) or 1.0
    lines = []
    for key in top:
        name = pad(clip(attention.tokens[key].name, NAME_WIDTH), NAME_WIDTH, right=True)
        lines.append(f"  {name} {row[key]:.3f} {'#' * round(row[key] / largest * BAR_WIDTH)}")
    if content[10:]:
        lines.append(f"  {'others':>{NAME_WIDTH}} {row[content[10:]].sum():.3f}")
    return [*lines, ""]


def _special_mass(attention: Attention, row: FloatArray) -> str:
    special = [key for key, token in enumerate(attention.tokens) if token.special]
    if not special:
        return "  no special tokens"
    parts = ", ".join(f"{attention.tokens[key].name} {row[key]:.0%}" for key in special)
    return f"  on special tokens: {row[special].sum():.0%} ({parts})"
