"""Fonts that have the glyphs of a label; matplotlib draws a box for a glyph its font lacks."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

# Fonts with Chinese, Japanese and Korean glyphs, as systems name them.
CJK_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Serif CJK SC",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)


class FontChoice:
    """Finds for each label a font with all its glyphs."""

    def __init__(self, matplotlib: ModuleType, font: Path | None = None) -> None:
        """Looks in the file font first, then among matplotlib's own and the system's fonts.

        Raises:
            ValueError: font is no font file that matplotlib can read.
        """
        self._matplotlib = matplotlib
        self._given = font
        if font is not None and not _covered(matplotlib, str(font)):
            raise ValueError(f"{font} is not a font file that matplotlib can read (TTF, OTF, TTC)")

    def properties(self, label: str) -> Any:
        """The matplotlib FontProperties to draw the label with, or None if no font has it."""
        needed = {ord(character) for character in label if not character.isspace()}
        for path in self._paths():
            if needed <= _covered(self._matplotlib, path):
                return self._matplotlib.font_manager.FontProperties(fname=path)
        return None

    def missing(self, labels: Iterable[str]) -> list[int]:
        """Places of the labels that no font can draw."""
        return [place for place, label in enumerate(labels) if self.properties(label) is None]

    def _paths(self) -> Iterator[str]:
        if self._given is not None:
            yield str(self._given)
        manager = self._matplotlib.font_manager
        yield manager.findfont("DejaVu Sans")  # comes with matplotlib
        for family in CJK_FAMILIES:
            files = [font for font in manager.fontManager.ttflist if font.name == family]
            if files:
                yield min(files, key=_boldness).fname


def _boldness(font: Any) -> tuple[bool, int]:
    """Sorts upright fonts of normal weight first."""
    return font.style != "normal", abs(int(font.weight) - 400)


@cache
def _covered(matplotlib: ModuleType, path: str) -> frozenset[int]:
    """Code points that a font file has glyphs for; none if it cannot be read."""
    try:
        return frozenset(matplotlib.ft2font.FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
