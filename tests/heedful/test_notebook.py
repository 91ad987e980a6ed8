"""Attention as the result of a notebook cell."""

import re
from dataclasses import replace
from html import unescape

import numpy as np

from heedful.pictures.html import page


def test_attention_shows_its_page_in_a_frame_that_touches_nothing_outside(make_attention) -> None:
    attention = make_attention(['"><script>alert(1)</script>'])
    shown = attention._repr_html_()
    frame = re.fullmatch(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)"[^<>]*></iframe>', shown)
    assert frame
    assert unescape(frame[1]) == page(attention)


def test_a_map_too_large_for_a_notebook_says_what_to_do(make_attention) -> None:
    attention = make_attention(["a"])
    large = replace(attention, weights=np.broadcast_to(np.float32(0), (12, 12, 300, 300)))
    shown = large._repr_html_()
    assert "16 MiB" in shown
    assert "save_page" in shown
    assert len(shown) < 1000


def test_notebooks_that_show_no_pages_get_a_png(make_attention) -> None:
    assert make_attention(["a"])._repr_png_().startswith(b"\x89PNG")
