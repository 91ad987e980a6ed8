"""What the server learns of its engine's speed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.scheduling.prediction import RunCost

LENGTHS = st.lists(st.integers(1, 512), min_size=1, max_size=30)
SECONDS = st.floats(0, 100, allow_subnormal=False)


def work(lengths: list[int]) -> tuple[int, int]:
    return sum(lengths), sum(length * length for length in lengths)


def run_seconds(lengths: list[int], per_token: float = 4e-4, per_square: float = 4e-7) -> float:
    tokens, squares = work(lengths)
    return per_token * tokens + per_square * squares


def mixed_runs(count: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 200, size=rng.integers(1, 9)).tolist() for _ in range(count)]


def test_it_finds_the_cost_of_tokens_and_of_squares() -> None:
    cost = RunCost()
    for run in mixed_runs(20):
        cost.learn(*work(run), run_seconds(run))
    assert cost.per_token == pytest.approx(4e-4, rel=1e-6)
    assert cost.per_square == pytest.approx(4e-7, rel=1e-6)


def test_noise_of_a_fifth_moves_the_prediction_by_less_than_a_tenth() -> None:
    cost, rng = RunCost(), np.random.default_rng(1)
    for run in mixed_runs(200):
        cost.learn(*work(run), run_seconds(run) * rng.uniform(0.8, 1.2))
    assert cost.seconds(*work([100, 50])) == pytest.approx(run_seconds([100, 50]), rel=0.1)


def test_a_machine_that_becomes_three_times_slower_is_noticed_within_a_hundred_runs() -> None:
    cost = RunCost()
    for slower, runs in ((1, mixed_runs(100)), (3, mixed_runs(100, seed=2))):
        for run in runs:
            cost.learn(*work(run), slower * run_seconds(run))
    assert cost.seconds(*work([80])) == pytest.approx(3 * run_seconds([80]), rel=0.1)


def test_one_stalled_run_does_not_frighten_it() -> None:
    cost = RunCost()
    for run in mixed_runs(50):
        cost.learn(*work(run), run_seconds(run))
    cost.learn(*work([20]), 30.0)
    assert cost.seconds(*work([80])) < 1.5 * run_seconds([80])


def test_before_anything_is_learned_nothing_is_predicted() -> None:
    assert RunCost().seconds(10, 100) == 0


def test_the_warm_up_is_a_prior_that_equal_short_texts_do_not_wash_away() -> None:
    cost = RunCost()
    for run in ([1], [32] * 8, [512]):
        cost.anchor(*work(run), run_seconds(run))
    for _ in range(500):
        cost.learn(*work([10]), run_seconds([10]))
    assert cost.seconds(*work([512])) == pytest.approx(run_seconds([512]), rel=0.05)


@given(st.lists(st.tuples(LENGTHS, SECONDS), min_size=1, max_size=20), LENGTHS)
def test_it_is_never_negative_and_longer_is_never_cheaper(runs, lengths) -> None:
    cost = RunCost()
    for place, (run, seconds) in enumerate(runs):
        (cost.anchor if place % 5 == 0 else cost.learn)(*work(run), seconds)
    assert cost.per_token >= 0
    assert cost.per_square >= 0
    assert np.isfinite(cost.seconds(*work(lengths)))
    assert cost.seconds(*work(lengths)) <= cost.seconds(*work([*lengths, 1]))
