"""The one colour scale of all pictures: dark to bright, even steps of lightness, no red-green."""

import os
from collections.abc import Mapping
from typing import Literal, TextIO

Colour = tuple[int, int, int]
Depth = Literal["none", "256", "true"]

# Points of the magma scale (CC0, by Stéfan van der Walt and Nathaniel Smith), evenly spaced.
MAGMA: tuple[Colour, ...] = (
    (0, 0, 4),
    (28, 16, 68),
    (79, 18, 123),
    (129, 37, 129),
    (181, 54, 122),
    (229, 80, 100),
    (251, 135, 97),
    (254, 194, 135),
    (252, 253, 191),
)
ASCII_RAMP = " .:-=+*#%@"


def ramp(share: float) -> Colour:
    """The colour of a share of the scale, 0 to 1."""
    place = min(max(share, 0.0), 1.0) * (len(MAGMA) - 1)
    index = min(int(place), len(MAGMA) - 2)
    rest = place - index
    low, high = MAGMA[index], MAGMA[index + 1]
    red, green, blue = (round(a + (b - a) * rest) for a, b in zip(low, high, strict=True))
    return red, green, blue


def paint(text: str, share: float, depth: Depth) -> str:
    """The text on the colour of a share, in black or white, whichever can be read on it."""
    if depth == "none":
        return text
    colour = ramp(share)
    light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 130
    if depth == "256":
        return f"\x1b[48;5;{_cube(colour)};38;5;{16 if light else 231}m{text}\x1b[0m"
    ink = "0;0;0" if light else "255;255;255"
    return f"\x1b[48;2;{colour[0]};{colour[1]};{colour[2]};38;2;{ink}m{text}\x1b[0m"


def ascii_mark(share: float) -> str:
    """The sign of a share where there is no colour: the darker, the more."""
    return ASCII_RAMP[min(int(min(max(share, 0.0), 1.0) * len(ASCII_RAMP)), len(ASCII_RAMP) - 1)]


def colour_depth(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Depth:
    """How many colours a stream shows: none unless a terminal reads it, nor under NO_COLOR."""
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb" or not stream.isatty():
        return "none"
    return "true" if environ.get("COLORTERM") in {"truecolor", "24bit"} else "256"


def _cube(colour: Colour) -> int:
    """The nearest of the 216 colours that every 256-colour terminal has."""
    red, green, blue = (round(part / 255 * 5) for part in colour)
    return 16 + 36 * red + 6 * green + blue
