"""Both engines give the same answers at any shape of rows, and refuse what they cannot do."""

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.graphs import CLASSIFY
from model.bundle import (
    ATTENTION_GRAPH,
    CLASSIFY_GRAPH,
    GRAPH_WEIGHTS,
    Bundle,
    Golden,
    load_bundle,
    seal,
)
from model.errors import BundleError, SetupError
from model.packing import pack, unpack_attentions
from service.backends.loading import check_golden, load_backend

ROOT = Path(__file__).parents[3]
LOGITS, ATTENTIONS, NEIGHBOURS = 1e-4, 1e-5, 1e-5
LENGTHS = [[1], [41], [1, 1], [9, 4, 17, 1, 30, 2]]


@pytest.fixture(scope="module")
def onnx_backend(exported_bundle):
    return load_backend("onnx", exported_bundle, threads=1, spinning=False)


@pytest.fixture(scope="module")
def torch_backend(exported_bundle):
    return load_backend("torch", exported_bundle, threads=1)


@pytest.fixture(params=["onnx", "torch"])
def backend(request, onnx_backend, torch_backend):
    return {"onnx": onnx_backend, "torch": torch_backend}[request.param]


def texts_of(bundle, lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(bundle.config.vocab_size, size=length).tolist() for length in lengths]


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)


def assert_backends_agree(bundle, one, other, lengths, seed=1):
    rows = pack(texts_of(bundle, lengths, seed), max_row_length=60)
    close(one.run(rows), other.run(rows), LOGITS)
    logits, attentions = one.run_with_attentions(rows)
    other_logits, other_attentions = other.run_with_attentions(rows)
    assert logits.dtype == attentions.dtype == np.float32
    assert logits.shape == (len(lengths), 3)
    assert attentions.shape == (*rows.input_ids.shape[:1], 2, 5, *2 * rows.input_ids.shape[1:])
    close(logits, other_logits, LOGITS)
    close(logits, one.run(rows), LOGITS)
    close(attentions, other_attentions, ATTENTIONS)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_both_backends_agree(exported_bundle, onnx_backend, torch_backend, lengths) -> None:
    assert_backends_agree(exported_bundle, onnx_backend, torch_backend, lengths)


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 41), min_size=1, max_size=7), seed=st.integers(0, 99))
def test_both_backends_agree_on_rows_of_any_shape(
    exported_bundle, onnx_backend, torch_backend, lengths, seed
) -> None:
    assert_backends_agree(exported_bundle, onnx_backend, torch_backend, lengths, seed)


def test_a_text_gets_the_same_answer_alone_and_packed(exported_bundle, backend) -> None:
    texts = texts_of(exported_bundle, [9, 4, 17, 1, 30, 2, 41])
    rows = pack(texts, max_row_length=60)
    assert rows.sequence_ids.max() > 1
    plain = backend.run(rows)
    logits, attentions = backend.run_with_attentions(rows)
    squares = list(unpack_attentions(rows, attentions))
    for index, text in enumerate(texts):
        alone = pack([text])
        close(plain[index], backend.run(alone)[0], NEIGHBOURS)
        alone_logits, alone_attentions = backend.run_with_attentions(alone)
        close(logits[index], alone_logits[0], NEIGHBOURS)
        close(squares[index], alone_attentions[0], NEIGHBOURS)


def test_attention_rows_are_probabilities_over_their_own_text(exported_bundle, backend) -> None:
    rows = pack(texts_of(exported_bundle, [9, 4, 17, 1, 30, 2]))
    _, attentions = backend.run_with_attentions(rows)
    for square in unpack_attentions(rows, attentions):
        close(square.sum(-1), 1, ATTENTIONS)
    outside = (rows.sequence_ids[:, :, None] != rows.sequence_ids[:, None, :])[:, None, None]
    assert outside.any()
    assert (attentions[np.broadcast_to(outside, attentions.shape)] == 0).all()


def test_a_backend_says_what_it_is(exported_bundle, onnx_backend, torch_backend) -> None:
    assert (onnx_backend.name, onnx_backend.device) == ("onnxruntime", "cpu")
    assert (torch_backend.name, torch_backend.device) == ("torch", "cpu")
    assert onnx_backend.precision == torch_backend.precision == "float32"
    assert onnx_backend.has_attention
    assert torch_backend.has_attention


def test_sums_and_layer_norms_are_not_fused_on_the_cpu(exported_bundle, onnx_backend) -> None:
    """To the last digit, in which the fused operator differs."""
    rows = pack(texts_of(exported_bundle, [9, 4, 17, 1, 30, 2]))
    feed = {name: getattr(rows, name) for name in CLASSIFY.inputs}
    apart, fused = (
        onnxruntime.InferenceSession(
            exported_bundle.file(CLASSIFY_GRAPH),
            providers=["CPUExecutionProvider"],
            disabled_optimizers=disabled,
        ).run(None, feed)[0]
        for disabled in (["SkipLayerNormFusion"], [])
    )
    assert (apart != fused).any()
    np.testing.assert_array_equal(onnx_backend.run(rows), apart)


def test_the_attention_graph_is_loaded_once_however_many_ask_first(exported_bundle) -> None:
    backend = load_backend("onnx", exported_bundle, threads=1, spinning=False)
    assert backend._attention is None
    together, sessions = threading.Barrier(4), []

    def ask():
        together.wait()
        sessions.append(backend._attention_session())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sessions) == 4
    assert len(set(map(id, sessions))) == 1


def test_a_moved_folder_answers_the_same(tmp_path, monkeypatch, exported_bundle, backend) -> None:
    shutil.copytree(exported_bundle.path, tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    monkeypatch.chdir("/")
    kind = {"onnxruntime": "onnx", "torch": "torch"}[backend.name]
    moved = load_backend(kind, load_bundle(tmp_path / "second"), threads=1, spinning=False)
    rows = pack(texts_of(exported_bundle, [5, 7]))
    close(moved.run(rows), backend.run(rows), 0)
    for found, expected in zip(
        moved.run_with_attentions(rows), backend.run_with_attentions(rows), strict=True
    ):
        close(found, expected, 0)


def test_changed_weights_are_refused(tmp_path, exported_bundle) -> None:
    copy = shutil.copytree(exported_bundle.path, tmp_path / "changed")
    weights = bytearray((copy / GRAPH_WEIGHTS).read_bytes())
    weights[0] ^= 1
    (copy / GRAPH_WEIGHTS).write_bytes(weights)
    with pytest.raises(BundleError, match=r"weights\.bin was changed"):
        load_bundle(copy)


def without(bundle: Bundle, *names: str) -> Bundle:
    return replace(bundle, files={k: v for k, v in bundle.files.items() if k not in names})


def test_a_bundle_without_graphs_says_how_to_make_them(tiny_bundle) -> None:
    with pytest.raises(BundleError, match=r"no classify\.onnx; run `heedful export`"):
        load_backend("onnx", tiny_bundle, threads=1)


def test_weights_that_no_hash_covers_are_refused(exported_bundle) -> None:
    with pytest.raises(BundleError, match=r"classify\.onnx and not its weights\.bin"):
        load_backend("onnx", without(exported_bundle, GRAPH_WEIGHTS), threads=1)


def test_a_bundle_without_the_attention_graph_still_classifies(exported_bundle) -> None:
    backend = load_backend("onnx", without(exported_bundle, ATTENTION_GRAPH), threads=1)
    assert not backend.has_attention
    rows = pack(texts_of(exported_bundle, [5]))
    assert backend.run(rows).shape == (1, 3)
    with pytest.raises(BundleError, match=r"no attention\.onnx"):
        backend.run_with_attentions(rows)


def resealed(bundle: Bundle, folder: Path, **changes: object) -> Bundle:
    seal(folder, replace(bundle.manifest, **changes), list(bundle.files))
    return load_bundle(folder)


def test_a_graph_that_reads_outside_its_folder_is_refused(tmp_path, exported_bundle) -> None:
    copy = shutil.copytree(exported_bundle.path, tmp_path / "b")
    shutil.copy(copy / GRAPH_WEIGHTS, tmp_path / GRAPH_WEIGHTS)
    model = onnx.load(copy / CLASSIFY_GRAPH, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = f"../{GRAPH_WEIGHTS}"
    (copy / CLASSIFY_GRAPH).write_bytes(model.SerializeToString())
    with pytest.raises(BundleError, match="cannot load"):
        load_backend("onnx", resealed(exported_bundle, copy), threads=1)


def test_a_file_that_is_no_graph_is_refused(tmp_path, exported_bundle) -> None:
    copy = shutil.copytree(exported_bundle.path, tmp_path / "b")
    (copy / CLASSIFY_GRAPH).write_bytes(b"not a graph")
    with pytest.raises(BundleError, match=r"cannot load .*classify\.onnx"):
        load_backend("onnx", resealed(exported_bundle, copy), threads=1)


def test_the_golden_example_is_answered(exported_bundle, backend) -> None:
    check_golden(backend, exported_bundle)


@pytest.mark.parametrize("wrong", [2e-3, float("nan")])
def test_another_answer_to_the_golden_example_is_refused_with_the_figures(
    exported_bundle, backend, wrong
) -> None:
    golden = exported_bundle.manifest.golden
    logits = [golden.logits[0] + wrong, *golden.logits[1:]]
    manifest = replace(
        exported_bundle.manifest, golden=Golden(input_ids=golden.input_ids, logits=logits)
    )
    with pytest.raises(BundleError, match=r"largest difference (0\.002|nan), allowed 0\.001"):
        check_golden(backend, replace(exported_bundle, manifest=manifest))


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_device_that_is_not_there_is_never_replaced(exported_bundle, kind, device) -> None:
    import torch

    if torch.cuda.is_available() or "CUDAExecutionProvider" in (
        onnxruntime.get_available_providers()
    ):
        pytest.skip("this machine has CUDA")
    with pytest.raises(SetupError, match=rf"the device {device} was asked for"):
        load_backend(kind, exported_bundle, device=device, threads=1)


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", ""])
def test_a_device_with_no_meaning_is_refused(exported_bundle, kind, device) -> None:
    with pytest.raises(SetupError, match="must be cpu, cuda or cuda:N"):
        load_backend(kind, exported_bundle, device=device, threads=1)


def test_an_unknown_backend_and_no_threads_are_refused(exported_bundle) -> None:
    with pytest.raises(SetupError, match="one of"):
        load_backend("tensorrt", exported_bundle, threads=1)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        load_backend("onnx", exported_bundle, threads=0)


def run_without(*packages: str, code: str, argument: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter that cannot import the packages."""
    blocker = (
        "import sys\n"
        f"for name in {packages!r}: sys.modules[name] = None\n"  # import then raises
    )
    return subprocess.run(
        [sys.executable, "-c", blocker + code, argument],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'proto'}"},
    )


LOAD = """
from model.bundle import load_bundle
from model.errors import SetupError
from model.packing import pack
from service.backends.loading import check_golden, load_backend
bundle = load_bundle(sys.argv[1])
"""


def test_the_onnx_backend_serves_without_torch_and_the_exporters(exported_bundle) -> None:
    code = LOAD + (
        "backend = load_backend('onnx', bundle, threads=1)\n"
        "check_golden(backend, bundle)\n"
        "backend.run_with_attentions(pack([[1, 2, 3]]))\n"
        "bundle.text_encoder().encode('a film')\n"
        "try: load_backend('torch', bundle, threads=1)\n"
        "except SetupError as error: print(error)\n"
    )
    done = run_without(
        "torch", "onnx", "onnxscript", "safetensors", code=code, argument=exported_bundle.path
    )
    assert done.returncode == 0, done.stderr
    assert "the torch backend needs PyTorch" in done.stdout
    assert not done.stderr


def test_without_onnx_runtime_the_message_says_what_to_install(exported_bundle) -> None:
    code = LOAD + (
        "try: load_backend('onnx', bundle, threads=1)\nexcept SetupError as error: print(error)\n"
    )
    done = run_without("onnxruntime", "torch", code=code, argument=exported_bundle.path)
    assert done.returncode == 0, done.stderr
    assert "the onnx backend needs ONNX Runtime" in done.stdout
    assert "heedful[serve]" in done.stdout


@pytest.fixture(scope="module")
def int8_backend(int8_bundle):
    return load_backend("onnx", int8_bundle, threads=1, spinning=False)


def test_int8_is_what_the_bundle_says_and_pytorch_stays_float32(int8_bundle, int8_backend) -> None:
    assert int8_backend.precision == "int8"
    assert load_backend("torch", int8_bundle, threads=1).precision == "float32"


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 41), min_size=1, max_size=7),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)
def test_int8_answers_do_not_depend_on_neighbours_or_threads(
    int8_bundle, int8_backend, lengths, threads, seed
) -> None:
    texts = texts_of(int8_bundle, lengths, seed)
    other = load_backend("onnx", int8_bundle, threads=threads, spinning=False)
    packed = other.run(pack(texts, max_row_length=60))
    for text, logits in zip(texts, packed, strict=True):
        close(logits, int8_backend.run(pack([text]))[0], 1e-6)


def test_int8_answers_the_same_whether_attention_is_asked_or_not(
    int8_bundle, int8_backend, onnx_backend
) -> None:
    rows = pack(texts_of(int8_bundle, [9, 4, 17, 1, 30, 2]))
    logits, attentions = int8_backend.run_with_attentions(rows)
    np.testing.assert_array_equal(logits, int8_backend.run(rows))
    np.testing.assert_array_equal(attentions, onnx_backend.run_with_attentions(rows)[1])


def test_int8_is_held_to_the_tolerance_of_its_bundle(int8_bundle, int8_backend) -> None:
    check_golden(int8_backend, int8_bundle)
    manifest = int8_bundle.manifest
    logits = [manifest.golden.logits[0] + 0.5, *manifest.golden.logits[1:]]
    golden = Golden(input_ids=manifest.golden.input_ids, logits=logits)
    wrong = replace(int8_bundle, manifest=replace(manifest, golden=golden))
    with pytest.raises(BundleError, match=r"allowed 0\.25"):
        check_golden(int8_backend, wrong)


@pytest.mark.parametrize(
    "tolerance", [{}, {"classify_logits": float("inf")}, {"classify_logits": "wide"}]
)
def test_int8_that_does_not_say_how_exact_is_refused(int8_bundle, int8_backend, tolerance) -> None:
    manifest = replace(int8_bundle.manifest, parity={"tolerance": tolerance})
    with pytest.raises(BundleError, match="does not say how exact"):
        check_golden(int8_backend, replace(int8_bundle, manifest=manifest))


def test_int8_is_refused_on_cuda_instead_of_falling_back(int8_bundle) -> None:
    with pytest.raises(SetupError, match=r"for cuda:1 use an export with --precision float32"):
        load_backend("onnx", int8_bundle, device="cuda:1", threads=1)


def test_an_unknown_precision_is_refused(tmp_path, int8_bundle) -> None:
    copy = shutil.copytree(int8_bundle.path, tmp_path / "b")
    record = json.loads((copy / "bundle.json").read_text(encoding="utf-8"))
    (copy / "bundle.json").write_text(json.dumps({**record, "precision": "int4"}), encoding="utf-8")
    with pytest.raises(BundleError, match="precision must be one of"):
        load_bundle(copy)
    del record["precision"]  # bundles of before
    (copy / "bundle.json").write_text(json.dumps(record), encoding="utf-8")
    assert load_bundle(copy).manifest.precision == "float32"
