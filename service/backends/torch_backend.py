"""Runs a bundle's network with PyTorch; the only file of the server that touches torch."""

from typing import TYPE_CHECKING

from model.bundle import Bundle
from model.errors import SetupError
from model.packing import PackedRows
from service.backends import FloatArray
from service.backends.device import cuda_index

if TYPE_CHECKING:
    from torch import Tensor


class TorchBackend:
    """Logits by the fused form of attention, attentions by the written-out one."""

    name = "torch"
    precision = "float32"
    has_attention = True

    def __init__(self, bundle: Bundle, *, device: str = "cpu", threads: int) -> None:
        """Loads the weights onto the device.

        Args:
            device: "cpu", "cuda" or "cuda:N".
            threads: for one run; torch has one setting for the whole process.

        Raises:
            BundleError: the weights do not fit the config.
            SetupError: torch is not installed, or has no such device.
        """
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        try:
            import torch

            from model.weights import as_tensors, load_encoder
        except ImportError as error:
            raise SetupError(
                f"the torch backend needs PyTorch ({error}): pip install 'heedful[train]', "
                "or use the onnx backend"
            ) from None
        self.device = _device(device, torch.cuda.device_count())
        torch.set_num_threads(threads)
        encoder = load_encoder(bundle).to(self.device)

        @torch.inference_mode()
        def forward(rows: PackedRows, with_attentions: bool) -> tuple["Tensor", "Tensor | None"]:
            tensors = (tensor.to(self.device) for tensor in as_tensors(rows))
            logits, attentions = encoder(*tensors, with_attentions=with_attentions)
            return logits.cpu(), None if attentions is None else attentions.cpu()

        self._forward = forward

    def run(self, rows: PackedRows) -> FloatArray:
        """Logits (B, C) of the packed texts, in packed order."""
        logits, _ = self._forward(rows, False)
        return logits.numpy()

    def run_with_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        """Logits (B, C) and attentions (R, L, H, T, T), float32."""
        logits, attentions = self._forward(rows, True)
        assert attentions is not None  # noqa: S101 - asked for one line above
        return logits.numpy(), attentions.numpy()


def _device(device: str, num_cuda_devices: int) -> str:
    index = cuda_index(device)
    if index is None:
        return device
    if index >= num_cuda_devices:
        raise SetupError(
            f"the device {device} was asked for and torch sees {num_cuda_devices} CUDA devices: "
            "check the driver and torch's build, or use the device cpu"
        )
    return f"cuda:{index}"
