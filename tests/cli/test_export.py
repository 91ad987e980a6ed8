"""heedful export as a user sees it: what it prints, where, and what it says of mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.export import _beside, _table
from cli.main import main
from model.bundle import load_bundle

COMMAND = Path(sys.executable).with_name("heedful")
STEPS = [
    "reading the bundle ...",
    "tracing classify.onnx ...",
    "tracing attention.onnx ...",
    "writing the graphs over one file of weights ...",
    "comparing the graphs with PyTorch ...",
]


def test_json_alone_on_stdout_and_steps_alone_on_stderr(tmp_path, exported_bundle) -> None:
    """No warning of torch or onnx gets through; and the same bundle gives the same graphs."""
    output = tmp_path / "again"
    done = subprocess.run(
        [COMMAND, "export", exported_bundle.path, "--output", output, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == STEPS
    result = json.loads(done.stdout)
    assert result["bundle"] == str(output)
    assert result["parity"]["cases"]["one token"]["classify_logits"] <= 1e-4
    assert result["bytes"]["weights.bin"] == (output / "weights.bin").stat().st_size
    assert load_bundle(output).files == exported_bundle.files


def test_the_table_has_sizes_figures_and_what_to_do_next(exported_bundle) -> None:
    table = _table(exported_bundle)
    for word in ("classify.onnx", "weights.bin", "kB", "maximum length", "allowed", "1e-05"):
        assert word in table
    assert table.endswith(f"heedful serve {exported_bundle.path}")
    assert all(len(line) <= 80 for line in table.splitlines()[1:-1])


@pytest.mark.parametrize(
    ("bundle", "output"), [("runs/a", "runs/a-onnx"), ("runs/a/", "runs/a-onnx"), ("a", "a-onnx")]
)
def test_the_output_stands_beside_the_bundle(bundle, output) -> None:
    assert _beside(Path(bundle)) == Path(output)


def test_the_working_folder_is_exported_beside_itself(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _beside(Path()) == tmp_path.with_name(f"{tmp_path.name}-onnx")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["."], "is not a bundle: it has no bundle.json"),
        (["nowhere", "--output", "."], ". exists, and a bundle is never changed"),
        ([], "Missing argument 'BUNDLE'"),
    ],
)
def test_mistakes_get_a_message_and_no_traceback(tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["export", *arguments])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert isinstance(result.exception, SystemExit)
    assert not list(tmp_path.iterdir())
