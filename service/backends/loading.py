"""Chooses an engine for a bundle, and checks that it answers as the bundle says."""

from typing import Literal, get_args

import numpy as np

from model.bundle import Bundle
from model.errors import BundleError, SetupError
from model.packing import pack
from service.backends import Backend

BackendKind = Literal["onnx", "torch"]

# Wide enough for another processor's order of additions, far too narrow for other weights.
GOLDEN_TOLERANCE = 1e-3


def load_backend(
    kind: BackendKind,
    bundle: Bundle,
    *,
    device: str = "cpu",
    threads: int,
    spinning: bool = True,
) -> Backend:
    """One engine with the bundle's model, on the device that was asked for and no other.

    Args:
        threads: for one run.
        spinning: whether ONNX Runtime's idle threads wait busily; of no meaning to torch.

    Raises:
        BundleError: the bundle lacks what the engine runs; the message says how to make it.
        SetupError: the engine is not installed, or does not have the device.
    """
    if kind == "onnx":
        from service.backends.onnx_backend import OnnxBackend

        return OnnxBackend(bundle, device=device, threads=threads, spinning=spinning)
    if kind == "torch":
        from service.backends.torch_backend import TorchBackend

        return TorchBackend(bundle, device=device, threads=threads)
    raise SetupError(f"the backend must be one of {get_args(BackendKind)}, got {kind!r}")


def check_golden(backend: Backend, bundle: Bundle) -> None:
    """Runs the bundle's known example; a BundleError with the figures if the answer is another."""
    golden = bundle.manifest.golden
    logits = backend.run(pack([golden.input_ids], bundle.config.pad_token_id))[0]
    distance = float(np.abs(logits - np.asarray(golden.logits)).max())
    if not distance <= GOLDEN_TOLERANCE:
        raise BundleError(
            f"{backend.name} on {backend.device} answers the known example of {bundle.path} with "
            f"{np.round(logits, 4).tolist()} and bundle.json says "
            f"{np.round(golden.logits, 4).tolist()} (largest difference {distance:.2g}, allowed "
            f"{GOLDEN_TOLERANCE:g}): the graphs, the weights and bundle.json do not belong together"
        )
