"""Learns a WordPiece vocabulary, the same one every time.

The trainer of the `tokenizers` library numbers letters in the order of a hash table that differs
from run to run, and breaks ties by these numbers: the same texts and seed gave other vocabularies.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

CONTINUES = "##"
Pair = tuple[str, str]


def learn_wordpieces(
    word_counts: Counter[str], vocab_size: int, special_tokens: Sequence[str]
) -> dict[str, int]:
    """Joins the most frequent neighbours again and again until the vocabulary is full.

    Ties go to the pair that comes first in code point order.

    Returns:
        Piece to id: special tokens, letters by frequency, then pieces as they were joined.
    """
    vocab = {token: index for index, token in enumerate(special_tokens)}
    words = {word: _letters(word) for word in sorted(word_counts)}
    for letter in _most_frequent_letters(words, word_counts, vocab_size - len(vocab)):
        vocab[letter] = len(vocab)
    joiner = _Joiner(
        [(word_counts[word], pieces) for word, pieces in words.items() if vocab.keys() >= {*pieces}]
    )
    while len(vocab) < vocab_size and (pair := joiner.most_frequent()) is not None:
        piece = joined(pair)
        vocab.setdefault(piece, len(vocab))
        joiner.join(pair, piece)
    return vocab


def joined(pair: Pair) -> str:
    return pair[0] + pair[1].removeprefix(CONTINUES)


def _letters(word: str) -> list[str]:
    return [word[0], *(CONTINUES + letter for letter in word[1:])]


def _most_frequent_letters(
    words: dict[str, list[str]], word_counts: Counter[str], room: int
) -> list[str]:
    counts: Counter[str] = Counter()
    for word, letters in words.items():
        for letter in letters:
            counts[letter] += word_counts[word]
    return sorted(counts, key=lambda letter: (-counts[letter], letter))[: max(room, 0)]


class _Joiner:
    """Words as pieces, and how often which two stand together."""

    def __init__(self, words: list[tuple[int, list[str]]]) -> None:
        self._words = words
        self._counts: dict[Pair, int] = defaultdict(int)
        self._places: dict[Pair, set[int]] = defaultdict(set)
        for index, (count, pieces) in enumerate(words):
            for pair in pairwise(pieces):
                self._counts[pair] += count
                self._places[pair].add(index)
        # A pair may lie here under counts it had before: only the right one is believed.
        self._heap = [(-count, pair) for pair, count in self._counts.items()]
        heapify(self._heap)

    def most_frequent(self) -> Pair | None:
        while self._heap:
            count, pair = heappop(self._heap)
            if self._counts[pair] == -count > 0:
                return pair
        return None

    def join(self, pair: Pair, piece: str) -> None:
        change: dict[Pair, int] = defaultdict(int)
        for index in self._places.pop(pair):
            count, pieces = self._words[index]
            after = list(_join_in(pieces, pair, piece))
            self._words[index] = (count, after)
            for neighbours in pairwise(pieces):
                change[neighbours] -= count
            for neighbours in pairwise(after):
                change[neighbours] += count
                self._places[neighbours].add(index)
        for neighbours, difference in change.items():
            if difference:
                self._counts[neighbours] += difference
                heappush(self._heap, (-self._counts[neighbours], neighbours))


def _join_in(pieces: list[str], pair: Pair, piece: str) -> Iterable[str]:
    index = 0
    while index < len(pieces):
        if tuple(pieces[index : index + 2]) == pair:
            yield piece
            index += 2
        else:
            yield pieces[index]
            index += 1
