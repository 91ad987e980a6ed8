"""Runs an engine on several shapes and on its known example before anybody is answered."""

import logging
import time

from model.bundle import Bundle
from model.errors import BundleError, HeedfulError
from model.packing import pack
from service.backends import Backend
from service.backends.loading import check_golden
from service.scheduling.prediction import RunCost

log = logging.getLogger(__name__)

LONGEST_CAUSE = 300


def warm_up(backend: Backend, bundle: Bundle, run_tokens: int) -> RunCost:
    """Runs the shortest text, a full run of short ones and the longest one.

    Returns:
        What they cost, each when it was run for the second time.

    Raises:
        BundleError: the known example comes out wrong, or the engine fails.
    """
    try:
        return _warm_up(backend, bundle, run_tokens)
    except HeedfulError:
        raise
    except Exception as error:
        log.debug("the engine %s failed while warming up", backend.name, exc_info=True)
        # It has seen no text of users, so that the cause can be told.
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_CAUSE]
        raise BundleError(
            f"the engine {backend.name} on {backend.device} failed while warming up ({cause}): "
            "export the bundle anew, choose another --backend or --device, or lower --run-tokens"
        ) from error


def _warm_up(backend: Backend, bundle: Bundle, run_tokens: int) -> RunCost:
    longest = bundle.manifest.max_tokens
    short = max(1, min(longest, run_tokens // 8))
    pad = bundle.config.pad_token_id
    cost = RunCost()
    for num_texts, num_tokens in ((1, 1), (max(1, run_tokens // short), short), (1, longest)):
        rows = pack([[pad] * num_tokens] * num_texts, pad)
        backend.run(rows)
        start = time.monotonic()
        backend.run(rows)
        seconds = time.monotonic() - start
        cost.anchor(num_texts * num_tokens, num_texts * num_tokens**2, seconds)
    check_golden(backend, bundle)
    return cost
