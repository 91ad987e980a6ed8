"""How many engines, with how many threads, over which sessions."""

import os
import threading

import pytest

from service.config import ServerConfig
from service.versions.instances import Engines, load_instances, plan_engines
from service.versions.serving import load_engine
from tests.service.engines import NumpyEngine


@pytest.mark.parametrize(
    ("settings", "engines"),
    [
        ({}, Engines(6, 1)),
        ({"threads": 2}, Engines(3, 2)),
        ({"threads": 8}, Engines(1, 8)),
        ({"instances": 2}, Engines(2, 3)),
        ({"instances": 9}, Engines(9, 1)),
        ({"instances": 4, "threads": 4}, Engines(4, 4)),
        ({"backend": "torch"}, Engines(1, 6)),
        ({"backend": "torch", "threads": 2}, Engines(1, 2)),
        ({"device": "cuda:0"}, Engines(1, 6)),
    ],
    ids=str,
)
def test_what_is_left_open_fills_six_processors(settings, engines) -> None:
    assert plan_engines(ServerConfig(**settings), usable=6) == engines


@pytest.mark.parametrize(
    ("settings", "sessions"),
    [
        ({"instances": 3, "threads": 1}, 1),
        ({"instances": 3, "threads": 2}, 3),
        ({"instances": 3, "threads": 2, "backend": "torch"}, 1),
    ],
)
def test_runs_of_one_thread_share_a_session_and_others_have_their_own(settings, sessions) -> None:
    made: list[NumpyEngine] = []

    def load(bundle, config) -> NumpyEngine:
        made.append(NumpyEngine())
        return made[-1]

    backends = load_instances(None, ServerConfig(**settings), load)
    assert (len(backends), len(made)) == (3, sessions)
    assert set(map(id, backends)) == set(map(id, made))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is a thing of Linux")
def test_there_are_as_many_engines_as_processors_for_us(exported_bundle, caplog) -> None:
    def load() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread alone
        load_instances(exported_bundle, ServerConfig(), load_engine)

    with caplog.at_level("INFO"):
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
    assert "1 engines at once, each with threads 1" in caplog.text
    assert f"1 of {os.cpu_count()} processors are ours to use" in caplog.text
