"""Attention as the result of a notebook cell."""

from html import escape
from importlib.util import find_spec

from heedful.attention import Attention
from heedful.pictures.html import page, page_bytes
from heedful.pictures.png import map_png

# A notebook keeps what it shows: larger pages belong into a file of their own.
MOST_BYTES = 8 * 2**20
HEIGHT = 900


def page_in_a_frame(attention: Attention) -> str:
    """The interactive page in a frame that can touch nothing outside; a word if it is too large."""
    size = page_bytes(attention)
    if size > MOST_BYTES:
        return (
            f"<p>{escape(repr(attention))} would add {size / 2**20:.0f} MiB to the notebook. Save "
            "it with <code>heedful.pictures.html.save_page(attention, 'attention.html')</code>, or "
            "ask for fewer layers, heads or queries.</p>"
        )
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{escape(page(attention))}" width="100%" '
        f'height="{HEIGHT}" style="border:0" title="attention"></iframe>'
    )


def png_or_none(attention: Attention) -> bytes | None:
    """The mean map as PNG, or None where matplotlib is not installed."""
    return map_png(attention) if find_spec("matplotlib") else None
