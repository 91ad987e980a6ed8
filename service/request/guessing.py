"""How many tokens texts will have, guessed before anything looks into them."""

from collections.abc import Sequence

from model.tokenizer import Encoding
from service.request.questions import Source
from service.request.tokenizing import num_characters

# What is known of earlier texts fades by so much with each request.
FADING = 0.99


class TokenGuess:
    """Guesses from the texts so far; for use in one event loop.

    A guess is for predictions only: texts of one length in characters differ in tokens, the more
    so when callers write in different languages.
    """

    def __init__(self, max_tokens: int) -> None:
        """Takes the most tokens that a text can have once it is encoded."""
        self._max_tokens = max_tokens
        self._tokens = self._characters = 0.0

    def learn(self, sources: Sequence[Source], encodings: Sequence[Encoding]) -> None:
        """Takes note of how many tokens texts have had, cut or not; token ids teach nothing."""
        self._tokens *= FADING
        self._characters *= FADING
        for source, encoding in zip(sources, encodings, strict=True):
            if isinstance(source, (str, tuple)):
                self._tokens += encoding.num_original_tokens
                self._characters += num_characters(source)

    def lengths(self, sources: Sequence[Source]) -> list[int]:
        """Tokens of each text, 1 to max_tokens; 1 while nothing is known."""
        return [self._length(source) for source in sources]

    def _length(self, source: Source) -> int:
        if not isinstance(source, (str, tuple)):
            return min(max(1, len(source)), self._max_tokens)
        if not self._characters:
            return 1
        tokens = num_characters(source) * self._tokens / self._characters
        return min(max(1, round(tokens)), self._max_tokens)
