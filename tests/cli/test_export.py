"""heedful export as a user sees it: what it prints, where, and what it says of mistakes."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.export import _beside, _table
from cli.main import main
from model.bundle import load_bundle
from tests.conftest import LABELS

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
    assert _beside(Path(bundle), "onnx") == Path(output)


def test_the_working_folder_is_exported_beside_itself(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _beside(Path(), "onnx") == tmp_path.with_name(f"{tmp_path.name}-onnx")


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


def texts_file(folder):
    """Labels that nobody can guess: float32 and int8 are as bad as each other."""
    rows = [f"a film of {number} hours,{LABELS[number % 3]}" for number in range(60)]
    path = folder / "texts.csv"
    path.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_int8_is_measured_on_named_data(tmp_path, tiny_bundle) -> None:
    output = tmp_path / "q"
    data = texts_file(tmp_path)
    options = [
        "--precision",
        "int8",
        "--output",
        output,
        "--data",
        data,
        "--split",
        "all",
        "--force",
    ]
    result = invoke(tiny_bundle.path, *options)
    assert result.exit_code == 0, result.output
    assert f"Accuracy on all of {data}, 60 texts:" in result.output
    measured = load_bundle(output).manifest.metrics["int8"]
    assert measured["num_texts"] == 60
    assert abs(measured["float32"]["accuracy"] - measured["int8"]["accuracy"]) <= 0.1
    assert "Accuracy of int8 on all" in (output / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.fixture
def learned_bundle(tmp_path, tiny_encoder, tiny_tokenizer):
    """A bundle that says which file it learned from."""
    from model.data.load import load_dataset
    from model.weights import write_bundle

    dataset = load_dataset(texts_file(tmp_path))
    return write_bundle(
        tmp_path / "learned", tiny_encoder, tiny_tokenizer, name="learned", labels=LABELS,
        provenance={"data": asdict(dataset.source)},
    )  # fmt: skip


def test_int8_is_measured_on_the_validation_split_of_what_was_learned(learned_bundle) -> None:
    result = invoke(learned_bundle.path, "--precision", "int8", "--json", "--force")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["precision"] == "int8"
    assert record["bundle"] == f"{learned_bundle.path}-int8"
    accuracy = record["accuracy"]
    assert (accuracy["split"], accuracy["num_texts"]) == ("validation", 6)


def test_int8_is_refused_on_data_that_changed_since(tmp_path, learned_bundle) -> None:
    file = tmp_path / "texts.csv"
    file.write_text(file.read_text(encoding="utf-8") + "one more,good\n", encoding="utf-8")
    result = invoke(learned_bundle.path, "--precision", "int8")
    assert result.exit_code == 1
    assert "has changed since the bundle learned from it; name labelled texts" in result.output


def test_int8_is_refused_on_another_cut_of_the_same_data(learned_bundle) -> None:
    result = invoke(learned_bundle.path, "--precision", "int8", "--split-seed", "14")
    assert result.exit_code == 1
    assert "was read with other options when the bundle learned from it" in result.output


def test_int8_without_any_data_says_what_to_do(tmp_path, tiny_bundle) -> None:
    output = tmp_path / "q"
    result = invoke(tiny_bundle.path, "--precision", "int8", "--output", output)
    assert result.exit_code == 1
    for words in ("does not say what it learned from", "--data", "--force"):
        assert words in result.output
    assert not output.exists()


def test_named_data_that_is_not_there_is_refused_even_with_force(tmp_path, tiny_bundle) -> None:
    options = [
        "--precision",
        "int8",
        "--output",
        tmp_path / "q",
        "--data",
        "nowhere.csv",
        "--force",
    ]
    result = invoke(tiny_bundle.path, *options)
    assert result.exit_code == 1
    assert "int8 cannot be measured: nowhere.csv does not exist" in result.output


def test_the_table_of_int8_says_that_it_was_not_measured(int8_bundle) -> None:
    table = _table(int8_bundle)
    assert "The accuracy of int8 was not measured." in table
    assert "0.25" in table


@pytest.mark.parametrize("options", [["--force"], ["--data", "x"], ["--label", "y"]])
def test_options_of_int8_are_refused_for_float32(tmp_path, options) -> None:
    result = invoke(tmp_path, *options)
    assert result.exit_code == 2
    assert f"{options[0]} is for --precision int8 only" in result.output
