"""Maps and texts in a terminal: columns that line up, colours only where they are seen."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest

from heedful import Token
from heedful.pictures.cells import cells, clip, pad
from heedful.pictures.colours import ascii_mark, colour_depth, paint
from heedful.pictures.focus import spans, title
from heedful.pictures.terminal import draw_map, draw_text

CHINESE = ["房间", "很", "干净", "，", "服务", "也", "好", "👩\u200d👧"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_chinese_takes_two_cells_and_marks_take_none() -> None:
    assert (cells("房间ab"), cells("e\u0301"), cells("，")) == (6, 1, 2)
    assert clip("歌剧院里", 5) == "歌剧…"
    assert clip("abc", 3) == "abc"
    assert (pad("中", 4), pad("中", 4, right=True)) == ("中  ", "  中")


def test_every_row_of_a_chinese_map_is_equally_wide(make_attention) -> None:
    lines = draw_map(make_attention(CHINESE), 0).splitlines()
    rows = [line for line in lines if re.match(r" *(\[CLS\]|[房很干，服也好👩]|\[SEP\])", line)]
    rows = rows[-len(CHINESE) - 2 :]
    assert len(rows) == len(CHINESE) + 2
    assert {cells(row) for row in rows} == {6 + 2 * (len(CHINESE) + 2)}


def test_the_names_above_stand_over_their_columns(make_attention) -> None:
    lines = draw_map(make_attention(["ab", "中"]), 0).splitlines()
    above = lines[5]  # the last letters: ] b 中 ]
    assert [above[6], above[8], above[10]] == ["]", "b", "中"]


def test_without_colours_darker_signs_mean_more(make_attention) -> None:
    attention = make_attention(["a"])
    weights = np.zeros_like(attention.weights)
    weights[..., 1] = 1
    drawn = draw_map(replace(attention, weights=weights), 0)
    assert "\x1b" not in drawn
    assert drawn.count("  @@  ") == 3
    assert [ascii_mark(share) for share in (0, 0.55, 1, 7, -1)] == [" ", "+", "@", "@", " "]


@pytest.mark.parametrize(("depth", "code"), [("true", "\x1b[48;2;"), ("256", "\x1b[48;5;")])
def test_colours_are_written_for_what_the_terminal_shows(make_attention, depth, code) -> None:
    attention = make_attention(CHINESE)
    assert code in draw_map(attention, 0, depth=depth)
    assert code in draw_text(attention, 0, depth=depth)
    assert paint("a", 0.5, "none") == "a"


def test_no_colour_without_a_terminal_or_against_the_readers_wish() -> None:
    assert colour_depth(io.StringIO(), {"COLORTERM": "truecolor"}) == "none"
    assert colour_depth(Terminal(), {"COLORTERM": "truecolor"}) == "true"
    assert colour_depth(Terminal(), {"TERM": "xterm-256color"}) == "256"
    assert colour_depth(Terminal(), {"NO_COLOR": "1", "COLORTERM": "truecolor"}) == "none"
    assert colour_depth(Terminal(), {"TERM": "dumb"}) == "none"


def test_what_does_not_fit_is_counted(make_attention) -> None:
    drawn = draw_map(make_attention([f"w{place}" for place in range(70)]), 0, width=60, height=5)
    assert "Shown: 5 of 72 rows" in drawn
    assert max(map(cells, drawn.splitlines()[1:])) <= 60


def test_the_text_view_says_how_much_lies_on_special_tokens(make_attention) -> None:
    attention = make_attention(["a", "b"])
    weights = np.zeros_like(attention.weights)
    weights[..., 0], weights[..., 2], weights[..., 3] = 0.5, 0.375, 0.125
    for depth in ("none", "true"):
        drawn = draw_text(replace(attention, weights=weights), 0, depth=depth)
        assert "on special tokens: 62% ([CLS] 50%, [SEP] 12%)" in drawn
    assert "What [CLS] attends to" in drawn
    with pytest.raises(ValueError, match="token 9 is not among the queries"):
        draw_text(attention, 0, query=9)


def test_a_token_cannot_steer_the_terminal(make_attention) -> None:
    attention = make_attention(["a\x1b[2J", "\u202eb", "c\r"])
    for drawn in (draw_map(attention), draw_text(attention), draw_text(attention, depth="true")):
        assert not set(drawn) & {"\u202e", "\r"}
        assert "\x1b[2J" not in drawn


def test_token_ids_without_a_text_are_drawn_as_bars(make_attention) -> None:
    drawn = draw_text(replace(make_attention(["a", "b"]), texts=()), depth="true")
    assert "####" in drawn


def test_tokens_that_share_a_sign_share_its_stretch_of_text(make_attention) -> None:
    attention = make_attention(["a"])
    pieces = [Token(7, "Ð", "😀", 2, 3, 0, False), Token(8, "Ñ", "😀", 2, 3, 0, False)]
    tokens = (*attention.tokens[:2], *pieces, attention.tokens[2])
    parts = spans(replace(attention, tokens=tokens, texts=("a 😀",)))
    assert [(part.begin, part.end, part.keys) for part in parts] == [(0, 1, (1,)), (2, 3, (2, 3))]


def test_a_map_is_named_by_what_it_averages(make_attention) -> None:
    attention = make_attention(["a"], layers=3, heads=2)
    assert title(attention, 1, 0) == "layer 1, head 0"
    assert title(attention, 1, None) == "layer 1, mean of 2 heads"
    assert title(attention, None, None) == "mean of 3 layers, mean of 2 heads"
