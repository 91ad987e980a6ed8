"""The queue: bounded, oldest first, company of like length."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from service.scheduling.waiting import WaitingTexts


@dataclass(frozen=True, eq=False)
class Waiter:
    num_tokens: int
    with_attention: bool = False


def queue_of(*texts: Waiter, max_texts: int = 1000, max_tokens: int = 100_000) -> WaitingTexts:
    queue: WaitingTexts[Waiter] = WaitingTexts(max_texts, max_tokens)
    for text in texts:
        queue.add(text)
    return queue


def test_the_oldest_text_is_always_in_the_next_run() -> None:
    oldest = Waiter(200)
    queue = queue_of(oldest, *(Waiter(10) for _ in range(50)))
    assert oldest in queue.take(max_tokens=256)


def test_a_run_prefers_texts_of_like_length() -> None:
    long_texts = [Waiter(100), Waiter(101), Waiter(99)]
    queue = queue_of(long_texts[0], *(Waiter(3) for _ in range(20)), *long_texts[1:])
    assert set(queue.take(max_tokens=300)) == set(long_texts)


def test_among_like_lengths_the_older_goes_first() -> None:
    texts = [Waiter(10) for _ in range(6)]
    queue = queue_of(*texts)
    assert queue.take(max_tokens=30) == texts[:3]


def test_a_text_over_the_budget_runs_alone() -> None:
    giant = Waiter(500)
    queue = queue_of(giant, Waiter(5))
    assert queue.take(max_tokens=256) == [giant]


def test_texts_with_attention_never_share_a_run_with_plain_ones() -> None:
    plain, curious = [Waiter(5), Waiter(5)], [Waiter(5, True), Waiter(5, True)]
    queue = queue_of(plain[0], curious[0], plain[1], curious[1])
    assert queue.take(256) == plain
    assert queue.take(256) == curious


def test_the_bound_holds_in_texts_and_in_tokens() -> None:
    queue = queue_of(Waiter(10), max_texts=2, max_tokens=30)
    assert queue.lacks_room(1, 20) is None
    assert queue.lacks_room(2, 2) == "texts"
    assert queue.lacks_room(1, 21) == "tokens"


def test_an_empty_queue_takes_what_would_never_fit() -> None:
    assert queue_of(max_texts=1, max_tokens=1).lacks_room(5, 500) is None


@given(
    st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 256),
    st.randoms(use_true_random=False),
)
def test_every_text_comes_out_once_within_budget_and_before_its_turn(sizes, budget, random) -> None:
    texts = [Waiter(*size) for size in sizes]
    queue = queue_of(*texts)
    for text in random.sample(texts, len(texts) // 4):
        queue.remove(text)
        texts.remove(text)
    for place, _ in enumerate(list(texts)):
        run = queue.take(budget)
        if not run:
            break
        assert len(run) == 1 or sum(text.num_tokens for text in run) <= budget
        assert len({text.with_attention for text in run}) == 1
        assert texts[0] in run, f"passed over after {place} runs"
        for text in run:
            texts.remove(text)
    assert not texts
    assert (queue.num_texts, queue.num_tokens, queue.oldest()) == (0, 0, None)
