"""Text to token ids and back to places in the text; free of torch.

Offsets count code points of the text as it was given. Truncation happens here, on tokens, and is
reported; inside tokenizer.json it is always off.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

from model.errors import BundleError, InvalidInputError
from model.wordpiece import learn_wordpieces

TokenizerKind = Literal["wordpiece", "bpe", "words"]
Truncation = Literal["error", "head", "tail", "head_tail"]

PAD, UNKNOWN, CLS, SEP = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
SPECIAL_TOKENS = [PAD, UNKNOWN, CLS, SEP]
# WordPiece takes a longer word for unknown instead of searching it for pieces.
LONGEST_WORD = 100


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an encoding: piece is the vocabulary's spelling, begin and end code points.

    segment is 0 for the first text and special tokens, 1 for the second text of a pair.
    """

    id: int
    piece: str
    begin: int
    end: int
    segment: int
    special: bool


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or pair, as the encoder reads it.

    Attributes:
        input_ids: special tokens included, at most max_tokens.
        num_original_tokens: how many there were before truncation.
        num_lost_characters: code points that some token covered and, after truncation, none does.
    """

    input_ids: list[int]
    num_original_tokens: int
    num_lost_characters: int
    # Most callers want ids only, and an object per token would cost them more than encoding.
    _make_tokens: Callable[[], list[Token]]

    @property
    def tokens(self) -> list[Token]:
        return self._make_tokens()

    @property
    def truncated(self) -> bool:
        return self.num_original_tokens > len(self.input_ids)


@dataclass(frozen=True, slots=True)
class _Part:
    """One text's pieces, and which of them are kept."""

    pieces: tokenizers.Encoding
    segment: int
    kept: tuple[range, ...]

    def __len__(self) -> int:
        return sum(map(len, self.kept))

    @property
    def ids(self) -> list[int]:
        ids: list[int] = self.pieces.ids
        return [id_ for kept in self.kept for id_ in ids[kept.start : kept.stop]]

    def tokens(self) -> Iterator[Token]:
        ids, pieces, offsets = self.pieces.ids, self.pieces.tokens, self.pieces.offsets
        for kept in self.kept:
            for index in kept:
                yield Token(ids[index], pieces[index], *offsets[index], self.segment, False)

    def cut(self, length: int, truncation: Truncation) -> "_Part":
        """Keeps at most length pieces: the first, the last, or the two ends."""
        whole = len(self)
        if whole <= length:
            return self
        head = {"head": length, "tail": 0}.get(truncation, (length + 1) // 2)
        kept = (range(head), range(whole - (length - head), whole))
        return _Part(self.pieces, self.segment, tuple(part for part in kept if part))

    def num_characters(self) -> int:
        """Code points that some kept piece covers; pieces stand in the order of the text."""
        # One by one: the list of all offsets of a text of 1 MiB holds up every thread for 40 ms.
        span = self.pieces.token_to_chars
        covered = reached = 0
        for kept in self.kept:
            for begin, end in filter(None, map(span, kept)):
                if end > reached:
                    covered += end - max(begin, reached)
                    reached = end
        return covered


def train_tokenizer(
    texts: Iterable[str], kind: TokenizerKind = "wordpiece", vocab_size: int = 8000
) -> Tokenizer:
    """Learns a vocabulary of at most vocab_size from texts.

    wordpiece lowercases and splits Chinese characters; bpe works on bytes and keeps case; words
    splits at white space and keeps every word it has seen, most frequent first.
    """
    if kind not in get_args(TokenizerKind):
        raise ValueError(f"tokenizer must be one of {get_args(TokenizerKind)}, got {kind!r}")
    if kind == "wordpiece":
        tokenizer = _train_wordpiece(texts, vocab_size)
    elif kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        bpe = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=SPECIAL_TOKENS,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, bpe)
    else:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        # The word "[SEP]" would be looked up as the special token: its bracket is cut off.
        names = "|".join(token.strip("[]") for token in SPECIAL_TOKENS)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Split(Regex(rf"\[(?=({names})\])"), "isolated"),
            ]
        )
        words = trainers.WordLevelTrainer(
            vocab_size=vocab_size, special_tokens=SPECIAL_TOKENS, show_progress=False
        )
        tokenizer.train_from_iterator(texts, words)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (CLS, SEP)],
    )
    return tokenizer


def _train_wordpiece(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    normalizer = normalizers.BertNormalizer(lowercase=True)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        words = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))
        counts.update(word for word, _ in words if len(word) <= LONGEST_WORD)
    vocab = learn_wordpieces(counts, vocab_size, SPECIAL_TOKENS)
    tokenizer = Tokenizer(
        models.WordPiece(vocab, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    return tokenizer


class TextEncoder:
    """Encodes texts with one tokenizer.json; safe to call from several threads.

    Truncation is done here and not by the library: changing its settings per call is what makes a
    shared tokenizer fail with "Already borrowed".
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # A text that spells "[SEP]" is text: it must not end itself and start a second one.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self._template = _template(tokenizer, pair=False)
        self._pair_template = _template(tokenizer, pair=True)
        self._special_ids = {
            id_ for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special
        }

    @classmethod
    def from_file(cls, path: Path, max_tokens: int) -> "TextEncoder":
        try:
            return cls(Tokenizer.from_file(str(path)), max_tokens)
        except Exception as error:  # the library raises bare Exception
            raise BundleError(f"{path.name} is not a tokenizer: {error}") from None

    @property
    def vocab_size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def encode(
        self, text: str, text_pair: str | None = None, truncation: Truncation = "error"
    ) -> Encoding:
        """Encodes a text, or a pair of texts.

        Raises:
            InvalidInputError: no token in a text, not Unicode, or too long under "error".
        """
        parts = [self._split(text, 0, "text" if text_pair is None else "first text")]
        if text_pair is not None:
            parts.append(self._split(text_pair, 1, "second text"))
        template = self._template if text_pair is None else self._pair_template
        num_special = len(template) - len(parts)
        num_original = sum(map(len, parts)) + num_special
        kept, lost = parts, 0
        if num_original > self.max_tokens:
            if truncation == "error":
                raise InvalidInputError(
                    f"the text has {num_original} tokens and the model takes {self.max_tokens}: "
                    "shorten it, or choose the truncation head, tail or head_tail"
                )
            kept = _truncate(parts, self.max_tokens - num_special, truncation)
            lost = sum(
                whole.num_characters() - part.num_characters()
                for whole, part in zip(parts, kept, strict=True)
                if part is not whole
            )
        input_ids: list[int] = []
        for slot in template:
            input_ids.extend([slot.id] if isinstance(slot, Token) else kept[slot].ids)

        def make_tokens() -> list[Token]:
            tokens: list[Token] = []
            for slot in template:
                tokens.extend([slot] if isinstance(slot, Token) else kept[slot].tokens())
            return tokens

        return Encoding(input_ids, num_original, lost, make_tokens)

    def encode_ids(self, ids: Sequence[int]) -> Encoding:
        """Wraps token ids given by the caller, special tokens included; offsets are all 0."""
        if not ids:
            raise InvalidInputError("token ids are empty: give at least one")
        if len(ids) > self.max_tokens:
            raise InvalidInputError(
                f"{len(ids)} token ids were given and the model takes {self.max_tokens}: "
                "shorten the list; token ids are never truncated here"
            )
        vocab_size = self.vocab_size
        for position, id_ in enumerate(ids):
            if not 0 <= id_ < vocab_size:
                raise InvalidInputError(
                    f"token id {id_} at position {position} is outside 0 to {vocab_size - 1}"
                )

        def make_tokens() -> list[Token]:
            piece, special = self._tokenizer.id_to_token, self._special_ids
            return [Token(id_, piece(id_) or "", 0, 0, 0, id_ in special) for id_ in ids]

        return Encoding(list(ids), len(ids), 0, make_tokens)

    def _split(self, text: str, segment: int, name: str) -> _Part:
        try:
            pieces = self._tokenizer.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            raise InvalidInputError(
                f"the {name} has a lone surrogate, which is not Unicode text: "
                "decode it with errors='replace' first"
            ) from None
        if not len(pieces) or text.isspace():
            raise InvalidInputError(
                f"the {name} has no tokens: it is empty or only white space and control characters"
            )
        return _Part(pieces, segment, (range(len(pieces)),))


def _template(tokenizer: Tokenizer, pair: bool) -> list[Token | int]:
    """Where special tokens stand around texts 0 and 1, asked of the tokenizer itself."""
    word = max(tokenizer.get_vocab(with_added_tokens=False), default=UNKNOWN)
    first, second = (tokenizer.encode(word, add_special_tokens=False) for _ in range(2))
    joined = tokenizer.post_process(first, second if pair else None)
    template: list[Token | int] = []
    num_texts, inside = 0, False
    for id_, piece, special in zip(
        joined.ids, joined.tokens, joined.special_tokens_mask, strict=True
    ):
        if special:
            template.append(Token(id_, piece, 0, 0, 0, True))
        elif not inside:
            template.append(num_texts)
            num_texts += 1
        inside = not special
    return template


def _truncate(parts: list[_Part], room: int, truncation: Truncation) -> list[_Part]:
    """Shortens parts until all fit into room tokens; of a pair, the longer one first."""
    if room < len(parts):
        raise InvalidInputError("the model's longest text has no room beside special tokens")
    if len(parts) == 1:
        return [parts[0].cut(room, truncation)]
    shorter = min(*map(len, parts), room // 2)
    first = shorter if len(parts[0]) <= len(parts[1]) else room - shorter
    return [parts[0].cut(first, truncation), parts[1].cut(room - first, truncation)]


def tokenizer_json(tokenizer: Tokenizer) -> str:
    """The content of tokenizer.json, with truncation and padding off."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, indent=1) + "\n"
