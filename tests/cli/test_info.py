"""`heedful info` of a server and of a folder."""

import json

import pytest
from click.testing import CliRunner

from cli.main import main


def run(*words: str):
    return CliRunner().invoke(main, ["info", *words], catch_exceptions=False)


def test_a_server_is_waited_for_and_described(server) -> None:
    done = run("--target", server.address, "--ready")
    assert done.exit_code == 0
    assert "tiny" in done.stdout
    assert "max tokens               41" in done.stdout
    record = json.loads(run("--target", server.address, "--json").stdout)
    assert record["labels"] == ["bad", "fair", "good"]
    assert record["attention"] is True
    assert [row["state"] for row in record["models"]] == ["ready"]


def test_several_models_are_listed_and_one_is_described_when_named(
    start_server, exported_bundle
) -> None:
    path = exported_bundle.path
    server = start_server(None, model=(f"my_mails={path}", f"reviews={path}"))
    listed = run("--target", server.address)
    version = exported_bundle.manifest.version
    assert listed.stdout.splitlines() == [
        "versions",
        f"  my_mails {version}  ready, default",
        f"  reviews {version}   ready, default",
    ]
    record = json.loads(run("--target", server.address, "--json", "--model", "reviews").stdout)
    assert (record["model"], len(record["models"])) == ("reviews", 2)
    other = run("--target", server.address, "--model", "other")
    assert other.exit_code == 1
    assert "'my_mails' or 'reviews'" in other.stderr


def test_a_bundle_is_checked_and_described(exported_bundle) -> None:
    done = run(str(exported_bundle.path))
    assert done.exit_code == 0
    assert exported_bundle.manifest.version in done.stdout
    record = json.loads(run(str(exported_bundle.path), "--json").stdout)
    assert record["config"]["num_attention_heads"] == 5
    assert record["file_bytes"]["classify.onnx"] > 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--target", "localhost:1"], 1, "no server answers"),
        (["nowhere"], 1, "nowhere"),
        ([".", "--ready"], 2, "BUNDLE is a folder"),
        ([".", "--model", "a"], 2, "BUNDLE is a folder"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(words, code, says) -> None:
    done = run(*words)
    assert done.exit_code == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
