"""Runs a bundle's graphs with ONNX Runtime; no torch needed."""

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from model.bundle import ATTENTION_GRAPH, CLASSIFY_GRAPH, GRAPH_WEIGHTS, Bundle
from model.errors import BundleError, SetupError
from model.packing import PackedRows, pack
from model.processor import SLOW_FUSIONS, cuts_byte_sums
from service.backends import FloatArray
from service.backends.cuda import (
    CUDA_PROVIDER,
    RECORD_ASSIGNMENT,
    check_computes,
    cuda_provider,
    preload_libraries,
    run_bound,
    shrink,
)
from service.backends.device import CPU, DeviceError, cuda_index
from service.backends.failures import device_failure

if TYPE_CHECKING:
    import onnxruntime

# Quieter than warnings: what matters comes as an exception.
LOG_ERRORS_ONLY = 3


class OnnxBackend:
    """Logits from classify.onnx; attentions from attention.onnx, loaded when first asked for."""

    name = "onnxruntime"

    def __init__(
        self,
        bundle: Bundle,
        *,
        device: str = "cpu",
        threads: int,
        spinning: bool = True,
        gpu_memory_mb: int = 0,
    ) -> None:
        """Loads the graph for plain calls.

        Args:
            device: "cpu", "cuda" or "cuda:N".
            threads: for one run, the caller's own included.
            spinning: threads wait busily between parts of a run: faster for one engine, harmful
                where several share the same processors.
            gpu_memory_mb: MiB of each graph on CUDA; 0 is all there is.

        Raises:
            BundleError: the bundle has no graphs, or they do not load.
            SetupError: no ONNX Runtime.
            DeviceError: none for this device, or none that computes the bundle's precision there.
        """
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        self._bundle = bundle
        self.precision: str = bundle.manifest.precision
        self.has_attention = ATTENTION_GRAPH in bundle.files
        if self.precision == "int8" and cuda_index(device) is not None:
            raise DeviceError(
                f"{bundle.path} is exported in int8, which ONNX Runtime computes on the CPU only: "
                f"for {device} use an export with --precision float32"
            )
        self._provider, self.device = _provider(device, gpu_memory_mb)
        self._threads, self._spinning = threads, spinning
        self._classify = self._session(CLASSIFY_GRAPH)
        self._attention: onnxruntime.InferenceSession | None = None
        self._attention_lock = Lock()
        self._head_gate = np.ones(
            (bundle.config.num_hidden_layers, bundle.config.num_attention_heads), dtype=np.float32
        )

    def run(self, rows: PackedRows) -> FloatArray:
        """Logits (B, C) of the packed texts, in packed order."""
        (logits,) = self._run(self._classify, ["logits"], _feed(rows))
        return logits

    def run_with_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        """Logits (B, C), those of a plain run, and attentions (R, L, H, T, T), float32.

        Raises:
            BundleError: the bundle has no attention.onnx.
        """
        feed = {**_feed(rows), "head_gate": self._head_gate}
        if self.precision != "float32":
            # A text's answer must not depend on whether its attention is looked at.
            (attentions,) = self._run(self._attention_session(), ["attentions"], feed)
            return self.run(rows), attentions
        logits, attentions = self._run(self._attention_session(), ["logits", "attentions"], feed)
        return logits, attentions

    def _run(
        self, session: "onnxruntime.InferenceSession", outputs: list[str], feed: dict[str, Any]
    ) -> list[FloatArray]:
        if self.device == CPU:
            return session.run(outputs, feed)  # type: ignore[no-any-return]
        try:
            return run_bound(session, outputs, feed)
        except Exception as error:  # its exceptions have no common base
            if device_failure(error) == "memory":
                # What is left lies in pieces, and the smaller run that follows needs its own.
                smallest = {**feed, **_feed(pack([[self._bundle.config.pad_token_id]]))}
                shrink(session, outputs[0], smallest, self.device)
            raise

    def _attention_session(self) -> "onnxruntime.InferenceSession":
        with self._attention_lock:
            if self._attention is None:
                # Prepacking would copy the weights, which this rare graph can share instead.
                self._attention = self._session(ATTENTION_GRAPH, prepack=False)
            return self._attention

    def _session(self, graph: str, prepack: bool = True) -> "onnxruntime.InferenceSession":
        import onnxruntime

        path = self._bundle.file(graph)
        if GRAPH_WEIGHTS not in self._bundle.files:
            raise BundleError(
                f"the bundle {self._bundle.path} lists {graph} and not its {GRAPH_WEIGHTS}: "
                "run `heedful export` again"
            )
        options = _options(self._threads, self._spinning, prepack)
        on_cuda = self._provider[0] == CUDA_PROVIDER
        options.add_session_config_entry(RECORD_ASSIGNMENT, str(int(on_cuda)))
        try:
            # With its fallback it would try the CPU by itself, even in the middle of serving.
            session = onnxruntime.InferenceSession(
                path,
                options,
                providers=[self._provider],
                disabled_optimizers=() if on_cuda else SLOW_FUSIONS,
                enable_fallback=0,
            )
        except Exception as error:  # its exceptions have no common base
            kind = DeviceError if on_cuda else BundleError
            raise kind(f"ONNX Runtime cannot load {path} on {self.device}: {error}") from None
        if session.get_providers()[0] != self._provider[0]:
            raise DeviceError(
                f"ONNX Runtime could not use {self.device} and would have used the CPU instead: "
                "look for its error above, and check the driver, CUDA and cuDNN"
            )
        if on_cuda:
            check_computes(session, CUDA_PROVIDER, self.device)
        return session


def _options(threads: int, spinning: bool, prepack: bool) -> "onnxruntime.SessionOptions":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = LOG_ERRORS_ONLY
    # Shapes differ from run to run, and the arena would keep the largest of each for ever.
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    options.add_session_config_entry("session.disable_prepacking", str(int(not prepack)))
    options.add_session_config_entry("session.x64quantprecision", str(int(cuts_byte_sums())))
    return options


def _feed(rows: PackedRows) -> dict[str, Any]:
    return {
        "input_ids": rows.input_ids,
        "position_ids": rows.position_ids,
        "sequence_ids": rows.sequence_ids,
        "cls_index": rows.cls_index,
    }


def _provider(device: str, gpu_memory_mb: int) -> tuple[tuple[str, dict[str, Any]], str]:
    """The execution provider with its options, and the device's full name.

    Raises:
        DeviceError: this ONNX Runtime was built without it.
        SetupError: it is not installed.
    """
    index = cuda_index(device)
    try:
        import onnxruntime
    except ImportError as error:
        raise SetupError(
            f"the onnx backend needs ONNX Runtime ({error}): pip install 'heedful[serve]'"
        ) from None
    if index is None:
        return ("CPUExecutionProvider", {}), device
    if CUDA_PROVIDER not in onnxruntime.get_available_providers():
        raise DeviceError(
            f"the device {device} was asked for and this ONNX Runtime has no CUDA: "
            "install onnxruntime-gpu in place of onnxruntime, or use the device cpu"
        )
    preload_libraries()
    return cuda_provider(index, gpu_memory_mb), f"cuda:{index}"
