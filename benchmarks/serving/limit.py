"""The limit: the server's own sessions called in process, tokenizing included."""

import itertools
import statistics
import threading
import time

import numpy as np

from benchmarks.serving.servers import Figures
from benchmarks.serving.texts import runs_of
from model.bundle import Bundle
from model.packing import pack
from service.config import ServerConfig
from service.versions.instances import load_instances
from service.versions.serving import load_engine


class Limit:
    """As many threads as the server has engines, and every text known beforehand."""

    def __init__(self, bundle: Bundle, texts: list[str]) -> None:
        self._encoder = bundle.text_encoder()
        self._backends = load_instances(bundle, ServerConfig(), load_engine)
        self._runs, self._single = runs_of(texts), [[text] for text in texts]

    def packed(self, seconds: float) -> Figures:
        """Texts of like length in runs of the server's size, from all threads."""
        return self._measure(self._runs, self._backends, seconds)

    def one_by_one(self, seconds: float) -> Figures:
        """A text a run, from one thread."""
        return self._measure(self._single, self._backends[:1], seconds)

    def answer(self, text: str) -> float:
        """Answers one text; seconds."""
        start = time.perf_counter()
        self._backends[0].run(pack([self._encoder.encode(text).input_ids]))
        return time.perf_counter() - start

    def _measure(self, runs: list[list[str]], backends: list, seconds: float) -> Figures:
        order = np.random.default_rng(0).permutation(len(runs))  # no engine gets all the long ones
        turns = itertools.cycle([runs[index] for index in order])
        begin, cpu = time.perf_counter(), time.process_time()
        done: list[tuple[int, float]] = []

        def work(backend) -> None:
            while (start := time.perf_counter()) < begin + seconds:
                texts = next(turns)
                backend.run(pack([self._encoder.encode(text).input_ids for text in texts]))
                done.append((len(texts), time.perf_counter() - start))

        threads = [threading.Thread(target=work, args=(backend,)) for backend in backends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count, elapsed = sum(size for size, _ in done), time.perf_counter() - begin
        return {
            "per_second": count / elapsed,
            "p50_ms": 1e3 * statistics.median(took for _, took in done),
            "cpu_ms": 1e3 * (time.process_time() - cpu) / count,
        }
