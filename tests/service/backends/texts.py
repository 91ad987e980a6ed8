"""Texts of random tokens, and answers compared."""

import numpy as np


def texts_of(bundle, lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(bundle.config.vocab_size, size=length).tolist() for length in lengths]


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)
