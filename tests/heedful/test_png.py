"""PNG pictures, really drawn: labels in a font that has them, or as positions with a warning."""

import io
import warnings

import matplotlib.image
import numpy as np
import pytest
from matplotlib.ft2font import FT2Font

from heedful.pictures.fonts import FontChoice
from heedful.pictures.png import MissingGlyphWarning, grid_png, map_png

SMALLEST = ["中国", "熊猫", "可爱"]
NO_FONT_HAS_IT = "\U000f1234"  # private use


def pixels(png: bytes) -> np.ndarray:
    """(height, width, 3) from 0 to 1."""
    return matplotlib.image.imread(io.BytesIO(png), format="png")[..., :3]


def test_chinese_labels_are_drawn_with_glyphs_of_the_given_font(
    make_attention, chinese_font
) -> None:
    covered = FT2Font(str(chinese_font)).get_charmap()
    assert all(ord(sign) in covered for word in SMALLEST for sign in word)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = map_png(make_attention(SMALLEST), 0, font=chinese_font)
        others = map_png(make_attention(["中国", "袋鼠", "强壮"]), 0, font=chinese_font)
    # The same weights: only letters differ, which boxes for missing glyphs would not.
    assert np.abs(pixels(drawn) - pixels(others)).max() > 0.5


def test_each_label_gets_a_font_with_all_its_glyphs(chinese_font) -> None:
    import matplotlib
    import matplotlib.font_manager

    fonts = FontChoice(matplotlib, chinese_font)
    assert fonts.properties("熊猫").get_file() == str(chinese_font)
    assert fonts.properties("film") is not None
    assert fonts.missing(["film", "熊猫", NO_FONT_HAS_IT, "a" + NO_FONT_HAS_IT]) == [2, 3]


def test_a_label_without_a_font_becomes_its_position_and_a_warning(make_attention) -> None:
    attention = make_attention(["fine", NO_FONT_HAS_IT])
    with pytest.warns(MissingGlyphWarning, match=r"1 of 4 tokens.*\(#2\)"):
        drawn = map_png(attention)
    assert pixels(drawn).shape[0] > 100


def test_rows_are_queries_and_columns_are_keys(make_attention) -> None:
    attention = make_attention(["a", "b"], layers=1, heads=1)
    dark = np.zeros_like(attention.weights)
    dark[..., 3, 0] = 1  # the last token attends to the first: lower left
    attention.weights.flags.writeable = True
    attention.weights[:] = dark
    image = pixels(map_png(attention))
    rows, columns = np.nonzero(image.max(axis=2) < 0.04)
    block = image.max(axis=2) < 0.04
    # The black cell is the only large black area: find it by the densest 30 x 30 window.
    sums = np.lib.stride_tricks.sliding_window_view(block, (30, 30))[::5, ::5].sum(axis=(2, 3))
    top, left = (5 * place for place in np.unravel_index(sums.argmax(), sums.shape))
    assert len(rows)
    assert len(columns)
    assert top > image.shape[0] / 2
    assert left < image.shape[1] / 2


@pytest.mark.parametrize("word", ["$\\frac{$", "<b>", "%%", "_^", "a" * 300])
def test_labels_are_letters_and_never_formulas(make_attention, word) -> None:
    assert map_png(make_attention([word])).startswith(b"\x89PNG")


def test_long_texts_are_thinned_and_still_fit_a_page(make_attention) -> None:
    image = pixels(map_png(make_attention([f"w{place}" for place in range(200)], 1, 1)))
    assert max(image.shape) < 2600


def test_all_layers_and_heads_are_drawn_in_one_grid(make_attention) -> None:
    small = pixels(grid_png(make_attention(SMALLEST, layers=2, heads=3)))
    large = pixels(grid_png(make_attention(SMALLEST, layers=4, heads=3)))
    assert large.shape[0] > 1.5 * small.shape[0]
    assert large.shape[1] == small.shape[1]


def test_a_file_that_is_no_font_is_refused(make_attention, tmp_path) -> None:
    path = tmp_path / "font.ttf"
    path.write_text("no font")
    with pytest.raises(ValueError, match="not a font file"):
        map_png(make_attention(["a"]), font=path)
