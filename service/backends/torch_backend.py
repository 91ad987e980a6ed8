"""Runs a bundle's network with PyTorch; the only file of the server that touches torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from model.bundle import Bundle
from model.errors import SetupError
from model.packing import PackedRows, pack
from service.backends import FloatArray
from service.backends.device import CPU, DeviceError, cuda_index

if TYPE_CHECKING:
    from torch import Tensor

    from model.encoder import EncoderClassifier

# Lengths of texts for each form that torch makes of the network: a size of one is compiled apart.
FORMS: tuple[tuple[int, ...], ...] = ((2,), (2, 2), (2, 1), (1,), (1, 1))
# Versions that are loaded one after the other share a limit on what is compiled.
MAX_COMPILED = 256
LONGEST_CAUSE = 300


class TorchBackend:
    """Logits by the fused form of attention, attentions by the written-out one.

    On CUDA logits are computed in bfloat16; attentions are float32 everywhere.
    """

    name = "torch"
    has_attention = True

    def __init__(
        self,
        bundle: Bundle,
        *,
        device: str = "cpu",
        threads: int,
        gpu_memory_mb: int = 0,
        compiled: bool = True,
    ) -> None:
        """Loads the weights onto the device.

        Args:
            device: "cpu", "cuda" or "cuda:N".
            threads: for one run; torch has one setting for the whole process.
            gpu_memory_mb: MiB on CUDA, for all models of the process; 0 is all there is.
            compiled: whether the network is compiled, on CUDA only; it takes a minute.

        Raises:
            BundleError: the weights do not fit the config.
            DeviceError: torch has no such device, or cannot use it.
            SetupError: torch is not installed, or cannot compile.
        """
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        try:
            import torch

            from model.weights import load_encoder
        except ImportError as error:
            raise SetupError(
                f"the torch backend needs PyTorch ({error}): pip install 'heedful[train]', "
                "or use the onnx backend"
            ) from None
        self.device = _device(device, torch.cuda.device_count())
        on_cuda = self.device != CPU
        torch.set_num_threads(threads)
        if gpu_memory_mb and on_cuda:
            limit_memory(self.device, gpu_memory_mb)
        network = load_encoder(bundle)
        try:
            network = network.to(self.device)
        except RuntimeError as error:
            raise DeviceError(f"torch cannot use {self.device}: {error}") from None
        self._network = Network(
            network, self.device, bfloat16=on_cuda, compiler="inductor" * (compiled and on_cuda)
        )
        self.precision: str = self._network.precision

    def run(self, rows: PackedRows) -> FloatArray:
        """Logits (B, C) of the packed texts, in packed order."""
        return self._network.logits(rows)

    def run_with_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        """Logits (B, C), those of a plain run, and attentions (R, L, H, T, T), float32."""
        return self._network.logits_and_attentions(rows)


class Network:
    """An encoder on a device, in the precision and form that plain runs have there."""

    def __init__(
        self, encoder: "EncoderClassifier", device: str, *, bfloat16: bool, compiler: str = ""
    ) -> None:
        """Compiles everything that will be needed, so that no call ever waits for it.

        Args:
            compiler: of torch, as "inductor"; empty runs the network as it is written.

        Raises:
            SetupError: it cannot be compiled.
        """
        import torch

        self.precision = "bfloat16" if bfloat16 else "float32"
        self._encoder, self._device = encoder, device
        self._plain: Callable[..., Any] = encoder
        self._crowded = False

        def autocast() -> torch.autocast:
            kind = torch.device(device).type
            return torch.autocast(kind, dtype=torch.bfloat16, enabled=bfloat16)

        self._autocast = autocast
        if compiler:
            import torch._dynamo  # the module is not there without it

            torch._dynamo.config.recompile_limit = MAX_COMPILED
            self._plain = torch.compile(encoder, dynamic=True, backend=compiler)
            self._compile_all()

    def logits(self, rows: PackedRows) -> FloatArray:
        """Logits (B, C) float32."""
        with self._computing(rows) as tensors, self._autocast():
            logits, _ = self._plain(*tensors)
            return logits.float().cpu().numpy()  # type: ignore[no-any-return]

    def logits_and_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        """Logits (B, C) as logits() has them, and attentions (R, L, H, T, T), both float32."""
        with self._computing(rows) as tensors:
            logits, attentions = self._encoder(*tensors, with_attentions=True)
            shown = attentions.cpu().numpy()
        # A text's answer must not depend on whether its attention is looked at.
        same = self._plain is self._encoder and self.precision == "float32"
        return logits.cpu().numpy() if same else self.logits(rows), shown

    @contextmanager
    def _computing(self, rows: PackedRows) -> Iterator[list["Tensor"]]:
        """The rows on the device; what a run that did not fit has left there is freed first."""
        import torch

        from model.weights import as_tensors

        with torch.inference_mode():
            if self._crowded:
                self._crowded = False
                torch.cuda.empty_cache()
            try:
                yield [tensor.to(self._device) for tensor in as_tensors(rows)]
            except torch.OutOfMemoryError:
                self._crowded = True  # its tensors live until the error is handled
                raise

    def _compile_all(self) -> None:
        try:
            for lengths in FORMS:
                self.logits(pack([[0] * length for length in lengths]))
        except Exception as error:  # compilers have errors of their own
            what = " ".join(str(error).split())[:LONGEST_CAUSE]
            raise SetupError(
                f"torch cannot compile the network for {self._device} ({what}): "
                "install a C compiler and Triton, or serve with --no-compile"
            ) from None


def limit_memory(device: str, memory_mb: int) -> None:
    """Limits what this process may take on the device, to all of it where that is less."""
    import torch

    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (memory_mb << 20) / total), device)


def _device(device: str, num_cuda_devices: int) -> str:
    index = cuda_index(device)
    if index is None:
        return device
    if index >= num_cuda_devices:
        raise DeviceError(
            f"the device {device} was asked for and torch sees {num_cuda_devices} CUDA devices: "
            "check the driver and torch's build, or use the device cpu"
        )
    return f"cuda:{index}"
