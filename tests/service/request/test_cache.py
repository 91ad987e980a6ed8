"""The answer cache: what was said is said again, exactly, and never over its bytes."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import SetupError
from service.config import ServerConfig
from service.request.cache import SLICE, AnswerCache, AnswerShelf, key_of

KEYS = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(key_of)
LOGITS = st.lists(st.floats(width=32), min_size=1, max_size=4).map(
    lambda values: np.array(values, np.float32)
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), KEYS, LOGITS),
        st.tuples(st.just("get"), st.integers(0, 2), KEYS, st.none()),
        st.tuples(st.just("close"), st.integers(0, 2), st.none(), st.none()),
    ),
    max_size=60,
)


def open_shelf(cache: AnswerCache) -> AnswerShelf:
    return cache.add_shelf("tiny", "1", "float32")


@given(limit=st.integers(0, 4000), steps=STEPS)
@settings(max_examples=100)
def test_it_is_never_over_its_bytes_and_gives_what_was_put(limit, steps) -> None:
    cache = AnswerCache(limit)
    shelves = [open_shelf(cache) for _ in range(3)]
    put: dict[tuple[int, bytes], bytes] = {}
    for step, number, key, logits in steps:
        if step == "put":
            shelves[number].put(key, logits)
            put[number, key] = logits.tobytes()
        elif step == "close":
            assert not shelves[number].close()
            shelves[number] = open_shelf(cache)
            put = {place: data for place, data in put.items() if place[0] != number}
        else:
            found = shelves[number].get(key)
            assert found is None or found.tobytes() == put[number, key]
        assert 0 <= cache.num_bytes <= limit
        assert (cache.num_bytes == 0) == (not any(shelf.num_answers for shelf in shelves))
    for shelf in shelves:
        shelf.close()
    assert cache.num_bytes == 0


@given(first=st.lists(st.integers(0, 1 << 20)), second=st.lists(st.integers(0, 1 << 20)))
def test_only_the_same_ids_have_the_same_key(first, second) -> None:
    assert (key_of(first) == key_of(second)) == (first == second)


def test_the_least_recently_used_goes_first_whoever_has_it() -> None:
    logits = np.zeros(3, np.float32)
    probe = AnswerCache(1 << 20)
    open_shelf(probe).put(key_of([1]), logits)
    cache = AnswerCache(3 * probe.num_bytes)
    mine, theirs = open_shelf(cache), open_shelf(cache)
    mine.put(key_of([1]), logits)
    theirs.put(key_of([2]), logits)
    mine.put(key_of([3]), logits)
    assert mine.get(key_of([1])) is not None
    mine.put(key_of([4]), logits)
    assert theirs.get(key_of([2])) is None
    theirs.put(key_of([5]), logits)
    assert mine.get(key_of([3])) is None
    assert all(mine.get(key_of([id_])) is not None for id_ in (1, 4))


def test_a_version_never_finds_what_another_said() -> None:
    cache = AnswerCache(1 << 20)
    old, new = open_shelf(cache), open_shelf(cache)
    old.put(key_of([1]), np.ones(3, np.float32))
    assert new.get(key_of([1])) is None


def test_a_closed_version_keeps_and_gives_nothing() -> None:
    cache = AnswerCache(1 << 20)
    shelf = open_shelf(cache)
    key = key_of([1])
    shelf.put(key, np.ones(3, np.float32))
    assert not shelf.close()
    shelf.put(key, np.ones(3, np.float32))
    assert shelf.get(key) is None
    assert cache.num_bytes == 0


def test_a_version_that_kept_nothing_keeps_nothing_later() -> None:
    cache = AnswerCache(1 << 20)
    shelf = open_shelf(cache)
    assert not shelf.close()
    shelf.put(key_of([1]), np.ones(3, np.float32))
    assert cache.num_bytes == 0


def test_a_large_version_is_thrown_away_in_slices() -> None:
    cache = AnswerCache(1 << 30)
    shelf = open_shelf(cache)
    for id_ in range(SLICE + 1):
        shelf.put(key_of([id_]), np.ones(3, np.float32))
    assert shelf.close()
    assert shelf.num_answers == 1
    assert shelf.get(key_of([SLICE])) is None
    assert not shelf.close()


def test_what_it_takes_of_memory_is_what_it_counts() -> None:
    cache = AnswerCache(1 << 30)
    shelf = open_shelf(cache)
    tracemalloc.start()
    try:
        for id_ in range(11_000):  # just after the table has grown, when it is emptiest
            shelf.put(key_of([id_] * 20), np.ones(3, np.float32))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 * cache.num_bytes <= taken <= cache.num_bytes


def test_less_than_nothing_is_refused() -> None:
    with pytest.raises(SetupError, match="cache_mb must be positive"):
        ServerConfig(cache_mb=-1)
