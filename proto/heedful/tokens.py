"""One token as the model read it."""

import unicodedata
from dataclasses import dataclass

# They join emoji and shape Persian and Indic letters: part of the text, not steering it.
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True, slots=True)
class Token:
    """One token the model read; offsets count code points of the text as it was sent.

    Attributes:
        id: its place in the vocabulary.
        piece: its spelling in the vocabulary, as "##ing".
        text: the part of the input it stands for; empty for special tokens and ready-made ids.
        begin: first code point of that part.
        end: one past its last code point.
        segment: 0 in the first text, 1 in the second of a pair.
        special: added by the model's format and not part of the text, as "[CLS]".
    """

    id: int
    piece: str
    text: str
    begin: int
    end: int
    segment: int
    special: bool

    @property
    def name(self) -> str:
        """What to call the token in a picture: its text, marked "##" where it continues a word."""
        if not self.text:
            return visible(self.piece)
        continued = self.piece.startswith("##") and not self.text.startswith("##")
        return ("##" if continued else "") + visible(self.text)


def visible(text: str) -> str:
    """The text with every control and direction mark replaced by a sign that can be seen.

    A text is shown in terminals and pages; it must not steer them.
    """
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character == "\n":
        return "⏎"
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if character not in _JOINERS and unicodedata.category(character) in {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }:
        return "\ufffd"
    return character
