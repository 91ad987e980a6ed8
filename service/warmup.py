"""Runs an engine on several shapes and on its known example before anybody is answered."""

from model.bundle import Bundle
from model.packing import pack
from service.backends import Backend
from service.backends.loading import check_golden


def warm_up(backend: Backend, bundle: Bundle, run_tokens: int) -> None:
    """Runs the shortest text, a full run of short ones and the longest one.

    Raises:
        BundleError: the known example comes out wrong.
        Exception: whatever the engine raises.
    """
    longest = bundle.manifest.max_tokens
    short = max(1, min(longest, run_tokens // 8))
    pad = bundle.config.pad_token_id
    for num_texts, num_tokens in ((1, 1), (max(1, run_tokens // short), short), (1, longest)):
        backend.run(pack([[pad] * num_tokens] * num_texts, pad))
    check_golden(backend, bundle)
