"""Runs int8 graphs as the server does, on texts of random tokens."""

import numpy as np
import onnxruntime

from export.graphs import CLASSIFY
from model.processor import SLOW_FUSIONS


def session_of(model, optimized=None):
    """A session as the server makes them."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if optimized:
        options.optimized_model_filepath = str(optimized)
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=SLOW_FUSIONS,
    )


def answers(session, rows):
    return session.run(None, {name: getattr(rows, name) for name in CLASSIFY.inputs})[0]


def random_texts(vocab_size, lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(vocab_size, size=length).tolist() for length in lengths]
