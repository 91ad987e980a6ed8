"""What an engine needs of a bundle and of what is installed, and what it says without."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from model.bundle import (
    ATTENTION_GRAPH,
    CLASSIFY_GRAPH,
    GRAPH_WEIGHTS,
    Bundle,
    load_bundle,
    seal,
)
from model.errors import BundleError
from model.packing import pack
from service.backends.loading import load_backend
from tests.service.backends.texts import close, texts_of

ROOT = Path(__file__).parents[3]


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
