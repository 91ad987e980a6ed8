"""Tokens and their places: offsets in code points, truncation with what was lost, refusals."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from model.errors import BundleError, InvalidInputError
from model.tokenizer import SPECIAL_TOKENS, Encoding, TextEncoder, tokenizer_json, train_tokenizer
from model.wordpiece import learn_wordpieces

SENTENCES = [
    "the room was clean and the service kind",
    "breakfast was cold 😀 and the café closed",
    "房间很干净，服务也好。",
    "早餐太差，不会再来。",
    "[SEP] [CLS] brackets",
]
KINDS = ("wordpiece", "bpe", "words")
ENCODERS = {kind: TextEncoder(train_tokenizer(SENTENCES, kind, 400), 12) for kind in KINDS}
LONG = {kind: TextEncoder(train_tokenizer(SENTENCES, kind, 400), 400) for kind in KINDS}
TRICKY = [
    "room 房间 clean",
    "😀 the 👩‍👩‍👧 kind",
    "cafe\u0301 closed",  # e and a combining accent
    "e\u0301\u0302\u0303 room",
    "שלום the room",
    "İstanbul ﬁne ½",  # lowercasing changes the number of characters
    "  two  spaces\tand\nlines ",
    "zero\u200bwidth\u00a0space",
    "𠀀𠀁 beyond the basic plane 𝔘",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TRICKY)
def test_offsets_are_code_points_of_the_text_as_given(kind, text) -> None:
    tokens = [token for token in LONG[kind].encode(text).tokens if not token.special]
    assert tokens
    for token in tokens:
        assert 0 <= token.begin < token.end <= len(text)
    assert [token.begin for token in tokens] == sorted(token.begin for token in tokens)
    covered = {place for token in tokens for place in range(token.begin, token.end)}
    letters = {place for place, letter in enumerate(text) if letter.isalpha()}
    assert letters <= covered


def test_a_known_word_is_found_where_it_stands() -> None:
    text = "😀 房间 room"
    for kind in ("wordpiece", "words"):
        (token,) = [token for token in LONG[kind].encode(text).tokens if token.piece == "room"]
        assert text[token.begin : token.end] == "room"


def test_wordpiece_takes_chinese_characters_one_by_one() -> None:
    tokens = LONG["wordpiece"].encode("房间很好").tokens
    assert [token.piece for token in tokens] == ["[CLS]", "房", "间", "很", "好", "[SEP]"]
    assert [(token.begin, token.end) for token in tokens[1:-1]] == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_text_is_encoded_within_bounds_or_refused(kind, text) -> None:
    try:
        encoding = LONG[kind].encode(text)
    except InvalidInputError:
        return
    assert all(0 <= id_ < LONG[kind].vocab_size for id_ in encoding.input_ids)
    assert [token.id for token in encoding.tokens] == encoding.input_ids
    assert all(0 <= token.begin <= token.end <= len(text) for token in encoding.tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_spells_a_special_token_stays_text(kind) -> None:
    encoding = LONG[kind].encode("room [SEP] clean [CLS] [PAD]")
    special = [token for token in encoding.tokens if token.special]
    assert [token.piece for token in special] == ["[CLS]", "[SEP]"]
    begin, end = encoding.input_ids[0], encoding.input_ids[-1]
    assert encoding.input_ids.count(begin) == encoding.input_ids.count(end) == 1
    assert 0 not in encoding.input_ids


def test_special_tokens_have_the_lowest_ids() -> None:
    for kind in KINDS:
        tokenizer = train_tokenizer(SENTENCES, kind, 400)
        assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_has_both_texts_and_says_which_is_which(kind) -> None:
    tokens = LONG[kind].encode("the room", "was cold").tokens
    assert [token.segment for token in tokens if token.special] == [0, 0, 0]
    places = {0: "the room", 1: "was cold"}
    assert {token.segment for token in tokens if not token.special} == {0, 1}
    for token in tokens:
        if not token.special:
            assert places[token.segment][token.begin : token.end].strip()


WORDS = "the room was clean and the service kind and the breakfast cold"  # twelve words


@pytest.mark.parametrize(
    ("truncation", "kept", "lost"),
    [
        ("head", WORDS.split()[:10], len("breakfast") + len("cold")),
        ("tail", WORDS.split()[2:], len("the") + len("room")),
        ("head_tail", WORDS.split()[:5] + WORDS.split()[7:], len("the") + len("service")),
    ],
)
def test_truncation_keeps_what_it_says_and_counts_the_rest(truncation, kept, lost) -> None:
    encoding = ENCODERS["words"].encode(WORDS, truncation=truncation)
    assert [WORDS[token.begin : token.end] for token in encoding.tokens[1:-1]] == kept
    assert encoding.truncated
    assert encoding.num_original_tokens == 14
    assert len(encoding.input_ids) == 12
    if truncation == "head_tail":
        lost = len("the") * 0 + len(" ".join(WORDS.split()[5:7])) - 1
    assert encoding.num_lost_characters == lost


def test_a_long_text_is_refused_unless_truncation_is_chosen() -> None:
    with pytest.raises(InvalidInputError, match="has 14 tokens and the model takes 12"):
        ENCODERS["words"].encode(WORDS)


@pytest.mark.parametrize("truncation", ["head", "tail", "head_tail"])
@given(first=st.integers(1, 30), second=st.integers(1, 30))
@settings(max_examples=40)
def test_a_pair_loses_from_its_longer_text_first(truncation, first, second) -> None:
    encoder = ENCODERS["words"]  # 12 tokens, 3 of them special: room for 9
    encoding = encoder.encode("room " * first, "kind " * second, truncation)
    tokens = [token for token in encoding.tokens if not token.special]
    kept = [sum(token.segment == segment for token in tokens) for segment in (0, 1)]
    assert sum(kept) == min(first + second, 9)
    assert all(kept)
    if first + second > 9:
        for mine, whole, theirs in ((kept[0], first, kept[1]), (kept[1], second, kept[0])):
            assert mine == whole or mine >= theirs - 1
    assert encoding.num_lost_characters == 4 * (first + second - sum(kept))


def places_of(encoding: Encoding) -> set[tuple[int, int]]:
    """Segment and code point of everything that some token covers."""
    return {
        (token.segment, place)
        for token in encoding.tokens
        for place in range(token.begin, token.end)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("truncation", ["head", "tail", "head_tail"])
@given(
    parts=st.lists(
        st.sampled_from([*TRICKY, *SENTENCES]) | st.text(st.characters(exclude_categories=["Cs"])),
        min_size=1,
        max_size=6,
    ),
    pair=st.none() | st.sampled_from([*TRICKY, *SENTENCES]),
)
@settings(max_examples=40)
def test_what_is_lost_is_what_no_kept_token_covers(kind, truncation, parts, pair) -> None:
    text = "room" + " ".join(parts)
    whole = LONG[kind].encode(text, pair, "head")
    assume(not whole.truncated)
    short = ENCODERS[kind].encode(text, pair, truncation)
    assert short.num_lost_characters == len(places_of(whole) - places_of(short))


def test_a_text_of_exactly_the_longest_length_is_not_truncated() -> None:
    encoding = ENCODERS["words"].encode("room " * 10, truncation="head")
    assert not encoding.truncated
    assert encoding.num_lost_characters == 0
    assert len(encoding.input_ids) == 12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u3000"])
def test_a_text_without_tokens_is_refused(kind, text) -> None:
    with pytest.raises(InvalidInputError, match="has no tokens"):
        LONG[kind].encode(text)
    with pytest.raises(InvalidInputError, match="second text has no tokens"):
        LONG[kind].encode("room", text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_surrogate_is_refused_with_advice(kind) -> None:
    with pytest.raises(InvalidInputError, match="lone surrogate"):
        LONG[kind].encode("room \ud83d")


def test_nul_and_control_characters_do_not_break_it() -> None:
    with pytest.raises(InvalidInputError, match="control characters"):
        LONG["wordpiece"].encode("\x00\x01")
    assert LONG["wordpiece"].encode("room\x00clean").input_ids


def test_token_ids_are_checked_and_never_truncated() -> None:
    encoder = ENCODERS["words"]
    encoding = encoder.encode_ids([2, 5, 3])
    assert encoding.input_ids == [2, 5, 3]
    assert [token.special for token in encoding.tokens] == [True, False, True]
    for ids, complaint in (
        ([], "empty"),
        ([2] * 13, "13 token ids were given and the model takes 12"),
        ([2, encoder.vocab_size], f"token id {encoder.vocab_size} at position 1"),
        ([-1], "token id -1 at position 0"),
    ):
        with pytest.raises(InvalidInputError, match=complaint):
            encoder.encode_ids(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_survives_its_file_and_leaves_truncation_off(kind, tmp_path) -> None:
    tokenizer = train_tokenizer(SENTENCES, kind, 400)
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding()
    text = tokenizer_json(tokenizer)
    assert '"truncation": null' in text
    assert '"padding": null' in text
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    read = TextEncoder.from_file(tmp_path / "tokenizer.json", 400)
    for sentence in SENTENCES:
        assert read.encode(sentence).input_ids == LONG[kind].encode(sentence).input_ids


def test_a_file_that_is_no_tokenizer_is_a_bundle_error(tmp_path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BundleError, match=r"tokenizer\.json is not a tokenizer"):
        TextEncoder.from_file(tmp_path / "tokenizer.json", 12)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="tokenizer must be one of"):
        train_tokenizer(SENTENCES, "chars")  # type: ignore[arg-type]


def test_training_twice_gives_the_same_vocabulary() -> None:
    for kind in KINDS:
        first, second = (train_tokenizer(SENTENCES, kind, 120) for _ in range(2))
        assert first.get_vocab() == second.get_vocab()


def test_wordpieces_are_joined_by_frequency_with_ties_in_alphabetical_order() -> None:
    vocab = learn_wordpieces(Counter({"hug": 10, "pug": 5, "hugs": 5, "bun": 1}), 15, ["[UNK]"])
    # By hand: ##u ##g stand together 20 times; then h ##ug 15, p ##ug and hug ##s 5 each.
    assert list(vocab) == [
        "[UNK]", "##u", "##g", "h", "##s", "p", "##n", "b", "##ug", "hug", "hugs", "pug",
        "##un", "bun",
    ]  # fmt: skip
    assert list(vocab.values()) == list(range(14))


def test_a_vocabulary_smaller_than_the_alphabet_keeps_the_frequent_letters() -> None:
    vocab = learn_wordpieces(Counter({"aa": 3, "ab": 2, "c": 1}), 3, ["[UNK]"])
    assert list(vocab) == ["[UNK]", "a", "##a"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_id_is_below_the_size_of_the_vocabulary(kind) -> None:
    """Texts with the special tokens' names among their words once left holes in the ids."""
    vocab = train_tokenizer(SENTENCES, kind, 400).get_vocab()
    assert sorted(vocab.values()) == list(range(len(vocab)))


def test_threads_may_share_one_encoder() -> None:
    encoder = ENCODERS["wordpiece"]
    texts = [f"{sentence} {number}" for sentence in SENTENCES for number in range(40)]
    alone = [encoder.encode(text, truncation="head").input_ids for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: encoder.encode(text, None, "head").input_ids, texts))
    assert together == alone
