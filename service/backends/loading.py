"""Chooses an engine for a bundle, and checks that it answers as the bundle says."""

import math
from typing import Literal, get_args

import numpy as np

from model.bundle import Bundle
from model.errors import BundleError, SetupError
from model.packing import pack
from service.backends import Backend, FloatArray

BackendKind = Literal["onnx", "torch"]

# Wide enough for another processor's order of additions, far too narrow for other weights.
GOLDEN_TOLERANCE = 1e-3
# Of the largest logit, or of 1: bfloat16 has 8 bits, and twelve layers add up what they lack.
BFLOAT16_TOLERANCE = 0.1


def load_backend(
    kind: BackendKind,
    bundle: Bundle,
    *,
    device: str = "cpu",
    threads: int,
    spinning: bool = True,
    gpu_memory_mb: int = 0,
    compiled: bool = True,
) -> Backend:
    """One engine with the bundle's model, on the device that was asked for and no other.

    Args:
        threads: for one run.
        spinning: whether ONNX Runtime's idle threads wait busily; of no meaning to torch.
        gpu_memory_mb: MiB that may be taken on CUDA; 0 is all there is.
        compiled: whether torch compiles the network for CUDA.

    Raises:
        BundleError: the bundle lacks what the engine runs; the message says how to make it.
        DeviceError: the engine does not have the device.
        SetupError: the engine is not installed.
    """
    if kind == "onnx":
        from service.backends.onnx_backend import OnnxBackend

        return OnnxBackend(
            bundle,
            device=device,
            threads=threads,
            spinning=spinning,
            gpu_memory_mb=gpu_memory_mb,
        )
    if kind == "torch":
        from service.backends.torch_backend import TorchBackend

        return TorchBackend(
            bundle,
            device=device,
            threads=threads,
            gpu_memory_mb=gpu_memory_mb,
            compiled=compiled,
        )
    raise SetupError(f"the backend must be one of {get_args(BackendKind)}, got {kind!r}")


def check_golden(backend: Backend, bundle: Bundle) -> None:
    """Runs the bundle's known example; a BundleError with the figures if the answer is another."""
    golden = bundle.manifest.golden
    logits = backend.run(pack([golden.input_ids], bundle.config.pad_token_id))[0]
    check_golden_logits(logits, backend, bundle)


def check_golden_logits(logits: FloatArray, backend: Backend, bundle: Bundle) -> None:
    """Compares logits (C,) with those of the known example; a BundleError with the figures."""
    golden, allowed = bundle.manifest.golden, _golden_tolerance(backend, bundle)
    distance = float(np.abs(logits - np.asarray(golden.logits)).max())
    if not distance <= allowed:
        raise BundleError(
            f"{backend.name} on {backend.device} answers the known example of {bundle.path} with "
            f"{np.round(logits, 4).tolist()} and bundle.json says "
            f"{np.round(golden.logits, 4).tolist()} (largest difference {distance:.2g}, allowed "
            f"{allowed:g}): the graphs, the weights and bundle.json do not belong together"
        )


def _golden_tolerance(backend: Backend, bundle: Bundle) -> float:
    """GOLDEN_TOLERANCE for float32; for less exact numbers what the bundle says of itself."""
    if backend.precision == "float32":
        return GOLDEN_TOLERANCE
    if backend.precision == "bfloat16":
        return BFLOAT16_TOLERANCE * max(1.0, *map(abs, bundle.manifest.golden.logits))
    stated = bundle.manifest.parity.get("tolerance", {}).get("classify_logits")
    if not isinstance(stated, float) or not 0.0 < stated < math.inf:
        raise BundleError(
            f"{bundle.path} is {backend.precision} and does not say how exact: export it again"
        )
    return stated
