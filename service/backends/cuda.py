"""What ONNX Runtime needs on CUDA: provider options, bound inputs, and proof of who computes."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from service.backends import FloatArray
from service.backends.device import DeviceError

if TYPE_CHECKING:
    import onnxruntime

CUDA_PROVIDER = "CUDAExecutionProvider"
# Nearly all the time goes here. Operators on shapes run on the CPU, and are faster there.
HEAVY_OPERATORS = frozenset({"MatMul", "Gemm", "FusedMatMul", "Attention", "MultiHeadAttention"})
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
SHRINK_ARENAS = "memory.enable_memory_arena_shrinkage"


def cuda_provider(index: int, memory_mb: int) -> tuple[str, dict[str, Any]]:
    """The provider with its options.

    Args:
        memory_mb: MiB its arena may take, for each session; 0 is all there is.
    """
    # TF32 would give answers that differ in the third digit from float32.
    options: dict[str, Any] = {"device_id": index, "use_tf32": 0}
    # Doubling what it takes, as is usual, would soon hold memory that nobody needs.
    options["arena_extend_strategy"] = "kSameAsRequested"
    if memory_mb:
        options["gpu_mem_limit"] = memory_mb << 20
    return CUDA_PROVIDER, options


def preload_libraries() -> None:
    """Finds CUDA and cuDNN where pip has put them, as packages of their own or with torch."""
    import onnxruntime

    if preload := getattr(onnxruntime, "preload_dlls", None):
        preload()


def check_computes(session: "onnxruntime.InferenceSession", provider: str, device: str) -> None:
    """Makes sure that the provider has the operators that count; made with RECORD_ASSIGNMENT.

    The option that forbids the CPU altogether refuses the operators on shapes as well.

    Raises:
        DeviceError: some of them would run elsewhere.
    """
    elsewhere = sorted(
        {
            node.op_type
            for part in session.get_provider_graph_assignment_info()
            if part.ep_name != provider
            for node in part.get_nodes()
            if node.op_type in HEAVY_OPERATORS
        }
    )
    if elsewhere:
        raise DeviceError(
            f"ONNX Runtime would compute {', '.join(elsewhere)} elsewhere than on {device}: "
            "use another version of onnxruntime-gpu, or the torch backend"
        )


def run_bound(
    session: "onnxruntime.InferenceSession", outputs: Sequence[str], feed: dict[str, Any]
) -> list[FloatArray]:
    """Runs with inputs copied to the device once, before the run, and outputs to memory after it.

    A binding is made for each run, so that runs can go on side by side.
    """
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name in outputs:
        binding.bind_output(name, "cpu")
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    return binding.copy_outputs_to_cpu()  # type: ignore[no-any-return]


def shrink(
    session: "onnxruntime.InferenceSession", output: str, feed: dict[str, Any], device: str
) -> None:
    """Gives unused parts of the arena back with a small run; a failure of it changes nothing."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry(SHRINK_ARENAS, device.replace("cuda", "gpu"))
    with suppress(Exception):
        session.run([output], feed, options)
