"""Text in terminal cells: Chinese, Japanese and Korean signs take two, combining marks none."""

import re
import unicodedata

# A joiner with the sign after it, a skin tone, the request to draw as emoji.
_JOINED_EMOJI = re.compile(
    "\u200d[\u2190-\u2bff\U0001f000-\U0001faff]|[\U0001f3fb-\U0001f3ff\ufe0f]"
)


def cells(text: str) -> int:
    """How many cells a terminal gives the text."""
    return sum(map(_cells, text))


def clip(text: str, width: int) -> str:
    """The text if it fits into width cells, else its beginning and an ellipsis."""
    text = plain(text)
    if cells(text) <= width:
        return text
    kept = ""
    for character in text:
        if cells(kept) + _cells(character) > width - 1:
            break
        kept += character
    return kept + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled up with spaces to width cells, at its end or, if right, before it."""
    space = " " * max(width - cells(text), 0)
    return space + text if right else text + space


def plain(text: str) -> str:
    """The text with joined and toned emoji cut to their first: terminals differ in their width."""
    return _JOINED_EMOJI.sub("", text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
