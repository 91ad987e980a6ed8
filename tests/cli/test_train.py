"""heedful train and evaluate, as a user types them."""

import io
import json
import signal
from contextlib import redirect_stderr
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from cli.evaluate import evaluate
from cli.train import train
from model.bundle import load_bundle
from model.training.config import NetworkConfig, TextConfig, TrainConfig
from model.training.run_folder import run_folder_of

LINES = ["中国 熊猫 可爱", "澳大利亚 袋鼠 强壮", "中国 长城 雄伟", "澳大利亚 悉尼 歌剧院"]
SMALL = [
    "--tokenizer", "words", "--hidden-size", "16", "--num-hidden-layers", "1",
    "--num-attention-heads", "2", "--intermediate-size", "24", "--threads", "1",
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Forty texts a split: a country, a number, and which country it was."""
    folder = tmp_path_factory.mktemp("data")
    for split in ("train", "validation", "test"):
        rows = [
            json.dumps({"text": f"{LINES[n % 4]} {n % 7}", "label": ["中国", "澳洲"][n % 2]})
            for n in range(40)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "trained"
    options = ["--epochs", "30", "--patience", "0", "--learning-rate", "0.003", "--threads", "1"]
    result = run(train, str(data), "--output", str(output), *SMALL, *options)
    assert result.exit_code == 0, result.output
    return output


def run(command, *arguments: str) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_training_writes_a_bundle_that_knows_its_figures(trained) -> None:
    bundle = load_bundle(trained)
    manifest = bundle.manifest
    assert manifest.labels == ["中国", "澳洲"]
    assert manifest.metrics["test"]["accuracy"] == 1.0
    assert manifest.metrics["baseline"]["test"]["accuracy"] == 1.0
    assert manifest.metrics["test"]["confusion"] == [[20, 0], [0, 20]]
    assert {"nll", "ece", "macro_f1", "per_class"} <= manifest.metrics["validation"].keys()
    assert manifest.provenance["recipe"]["train"]["seed"] == 13
    assert manifest.provenance["rows"] == {"train": 40, "validation": 40, "test": 40}
    assert len(manifest.provenance["data"]["fingerprints"]["test.jsonl"]) == 64
    card = (trained / "MODEL_CARD.md").read_text(encoding="utf-8")
    for heading in ("## Intended use", "## Data", "## Figures", "### test", "## Limits"):
        assert heading in card
    assert "TF-IDF (characters 1-3)" in card
    assert not run_folder_of(trained).exists()


def test_the_result_is_printed_beside_the_baseline(data, tmp_path) -> None:
    output = tmp_path / "runs" / "short"
    result = run(train, data, "--output", output, *SMALL, "--epochs", "1")
    assert result.exit_code == 0, result.output
    assert "TF-IDF" in result.stdout
    assert "accuracy" in result.stdout
    assert "true \\ predicted" in result.stdout
    assert "Warning: the Transformer loses to TF-IDF" in result.stdout
    assert "\x1b" not in result.output
    assert "epoch 1: train loss" in result.stderr


def test_json_is_all_there_is_on_standard_output(data, tmp_path) -> None:
    output = tmp_path / "short"
    result = run(train, data, "--output", output, *SMALL, "--epochs", "1", "--json", "--name", "x")
    record = json.loads(result.stdout)
    assert record["bundle"] == str(output)
    assert record["name"] == "x"
    assert record["metrics"]["test"]["num_texts"] == 40


class CtrlC(io.StringIO):
    """Standard error of a user who presses Ctrl-C when a line begins with these words."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def write(self, text: str) -> int:
        if text.startswith(self._words):
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def interrupt(words: str, *arguments: object) -> tuple[object, str]:
    """Runs `heedful train` up to Ctrl-C: the exit code and what it said on standard error."""
    with pytest.raises(SystemExit) as stopped, redirect_stderr(CtrlC(words)) as said:
        train.main([str(argument) for argument in arguments])
    return stopped.value.code, said.getvalue()


def test_stopping_and_going_on_gives_the_weights_of_one_run(data, tmp_path) -> None:
    options = [*SMALL, "--epochs", "4", "--tokens-per-batch", "64", "--seed", "5"]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert run(train, data, "--output", whole, *options).exit_code == 0

    code, said = interrupt("epoch 2", data, "--output", halves, *options)
    assert code == 130
    assert f"heedful train --output {halves} --resume" in said
    assert not halves.exists()

    result = run(train, "--output", halves, "--resume", "--threads", "1")
    assert result.exit_code == 0, result.output
    one, other = load_bundle(whole).manifest, load_bundle(halves).manifest
    assert other.version == one.version
    assert other.metrics["epochs"] == one.metrics["epochs"]
    assert not run_folder_of(halves).exists()


def test_stopping_before_the_first_step_leaves_nothing_and_says_so(data, tmp_path) -> None:
    code, said = interrupt("Fitting", data, "--output", tmp_path / "x", *SMALL)
    assert code == 130
    assert "nothing to go on with" in said
    assert not list(tmp_path.iterdir())


def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(data, tmp_path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for file in data.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"text": "\\u0001", "label": "中国"}\n')
    result = run(train, folder, "--output", tmp_path / "x", "--threads", "1")
    assert result.exit_code == 1
    assert "row 41" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_unfinished_run_is_not_overwritten(data, tmp_path) -> None:
    output = tmp_path / "x"
    run_folder_of(output).mkdir()
    result = run(train, data, "--output", output, *SMALL)
    assert result.exit_code == 1
    assert "--resume" in result.output


def test_a_bundle_is_not_overwritten(data, trained) -> None:
    result = run(train, data, "--output", trained, *SMALL)
    assert result.exit_code == 1
    assert "a bundle is never changed" in result.output


def test_resume_takes_no_options_that_would_change_the_result(tmp_path) -> None:
    result = run(train, "--output", tmp_path / "x", "--resume", "--seed", "3")
    assert result.exit_code == 2
    assert "leave out --seed" in result.output
    result = run(train, "--output", tmp_path / "x", "--resume")
    assert result.exit_code == 1
    assert "holds no run" in result.output


def test_resume_notices_that_the_data_has_changed(data, tmp_path) -> None:
    folder, output = tmp_path / "data", tmp_path / "x"
    folder.mkdir()
    for file in data.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    options = [*SMALL, "--epochs", "1", "--keep-run"]
    assert run(train, folder, "--output", output, *options).exit_code == 0
    output.rename(tmp_path / "elsewhere")
    (folder / "test.jsonl").write_text('{"text": "中国", "label": "中国"}\n', encoding="utf-8")
    result = run(train, "--output", output, "--resume")
    assert result.exit_code == 1
    assert "has changed since" in result.output


@pytest.mark.filterwarnings("ignore")
def test_curves_are_logged_by_option(data, tmp_path) -> None:
    output = tmp_path / "x"
    result = run(train, data, "--output", output, *SMALL, "--epochs", "1", "--tensorboard")
    assert result.exit_code == 0, result.output
    assert list(run_folder_of(output).glob("events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["nothing.csv", "--output", "x"], 1, "nothing.csv does not exist"),
        (["--output", "x"], 2, "Give the data set"),
        (["rotten-tomatoes"], 2, "--output"),
        (["rotten-tomatoes", "--output", "x", "--epochs", "0"], 2, "epochs must be"),
        (["rotten-tomatoes", "--output", "x", "--dropout", "1.5"], 2, "dropout must be"),
        (["rotten-tomatoes", "--output", "v1.2"], 2, "--name sets another"),
        (["rotten-tomatoes", "--output", "x", "--threads", "0"], 2, "--threads"),
        (["rotten-tomatoes", "--output", "x", "--label", "y"], 1, "leave the column options out"),
    ],
)
def test_mistakes_get_a_message_and_an_exit_code(
    tmp_path, monkeypatch, arguments, code, complaint
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(train, *arguments)
    assert result.exit_code == code
    assert complaint in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_impossible_sizes_are_refused_before_anything_is_written(data, tmp_path) -> None:
    output = tmp_path / "x"
    result = run(train, data, "--output", output, "--num-attention-heads", "7")
    assert result.exit_code == 2
    assert "cannot be shared among 7 heads" in result.output
    assert not run_folder_of(output).exists()


def test_a_gpu_that_is_not_there_is_refused(data, tmp_path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = run(train, data, "--output", tmp_path / "x", "--device", "cuda")
    assert result.exit_code == 1
    assert "finds no GPU" in result.output
    assert not list(tmp_path.iterdir())


def test_the_help_states_the_defaults_that_training_uses() -> None:
    """The help does not import the configs: it would take seconds and packages."""
    text = {option.name: option.help or "" for option in train.params if hasattr(option, "help")}
    for config in (TextConfig, NetworkConfig, TrainConfig):
        for item in fields(config):
            if item.name != "overrides":
                stated = text[item.name].partition("[default: ")[2].removesuffix("]")
                expected = "the preset's" if item.default is None else str(item.default)
                assert stated == expected, item.name


def test_evaluating_repeats_the_figures_of_training(trained, data) -> None:
    result = run(evaluate, trained, data, "--threads", "1", "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    expected = load_bundle(trained).manifest.metrics["test"]
    assert figures["accuracy"] == expected["accuracy"]
    assert figures["confusion"] == expected["confusion"]
    assert figures["nll"] == pytest.approx(expected["nll"], abs=1e-5)
    assert figures["backend"] == "torch"
    plain = run(evaluate, trained, data, "--threads", "1", "--split", "all")
    assert "accuracy 100.00%" in plain.stdout
    assert "中国" in plain.stdout


def test_evaluating_by_onnx_needs_an_export_and_says_so(trained, data) -> None:
    result = run(evaluate, trained, data, "--backend", "onnx")
    assert result.exit_code == 1
    assert "heedful export" in result.output


def test_evaluating_refuses_labels_the_bundle_does_not_know(trained, tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "t", "label": "other"}\n', encoding="utf-8")
    result = run(evaluate, trained, path, "--split", "all")
    assert result.exit_code == 1
    assert "row 1 has the label 'other', and the classifier knows 中国, 澳洲" in result.output
    path.write_text('{"text": "t", "labels": ["中国"]}\n', encoding="utf-8")
    result = run(evaluate, trained, path, "--split", "all")
    assert "--label" in result.output
    result = run(evaluate, tmp_path, path)
    assert result.exit_code == 1
    assert "bundle.json" in result.output
