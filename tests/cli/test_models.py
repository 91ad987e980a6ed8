"""`heedful models` against real servers, with and without leave to change them."""

import json
import shutil

import pytest
from click.testing import CliRunner, Result

from cli.main import main


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["models", *words], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path, exported_bundle):
    for version in ("1", "2"):
        shutil.copytree(exported_bundle.path, tmp_path / "models" / "reviews" / version)
    return tmp_path / "models"


@pytest.fixture
def changed(start_server, folder):
    """Runs a command for a server that allows changes, and gives what it printed."""
    server = start_server(None, models=str(folder), allow_admin=True, poll_seconds=0)

    def done(name: str, *words: str) -> str:
        result = run(name, "--target", server.address, *words)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    return done


def test_versions_are_listed_with_where_they_stand_and_who_computes(changed) -> None:
    lines = changed("list").splitlines()
    assert [line.split() for line in lines] == [
        ["model", "version", "state", "engine", "reason"],
        ["reviews", "1", "ready", "onnxruntime", "float32", "on", "cpu"],
        ["reviews", "2", "ready,", "default", "onnxruntime", "float32", "on", "cpu"],
    ]
    record = json.loads(changed("list", "--json"))
    assert [row["is_default"] for row in record["models"]] == [False, True]


def test_the_way_back_and_forward(changed) -> None:
    assert changed("default", "reviews", "1") == "reviews: the default is 1, before 2\n"
    assert changed("load", "reviews").splitlines() == [
        "reviews 2 is loaded",
        "reviews: the default is 2, before 1",
    ]
    kept = changed("load", "reviews", "1", "--keep-default")
    assert kept == "reviews 1 is loaded; the default is still 2\n"
    assert changed("unload", "reviews", "2") == "reviews 2 is unloaded\n"
    assert [row["version"] for row in json.loads(changed("list", "--json"))["models"]] == ["1"]


def test_changes_are_told_to_programs_as_json(changed) -> None:
    assert json.loads(changed("default", "reviews", "1", "--json")) == {
        "model": "reviews",
        "previous_default_version": "2",
        "default_version": "1",
    }
    assert json.loads(changed("load", "reviews", "2", "--json")) == {
        "model": "reviews",
        "version": "2",
        "previous_default_version": "1",
        "default_version": "2",
    }
    unloaded = json.loads(changed("unload", "reviews", "--all", "--json"))
    assert unloaded == {"model": "reviews", "versions": ["1", "2"]}


def test_a_version_that_failed_is_listed_with_its_reason_and_forgotten_by_unload(
    start_server, folder
) -> None:
    (folder / "reviews" / "2" / "classify.onnx").write_bytes(b"no graph")
    server = start_server(None, models=str(folder), allow_admin=True, poll_seconds=0)
    listed = run("list", "--target", server.address).stdout
    assert "failed" in listed
    assert "classify.onnx" in listed
    failed = run("load", "reviews", "2", "--target", server.address)
    assert failed.exit_code == 1
    assert "nothing has changed" in failed.stderr
    forgotten = run("unload", "reviews", "2", "--target", server.address)
    assert "only versions that had failed" in forgotten.stdout
    assert "failed" not in run("list", "--target", server.address).stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["list", "--target", "localhost:1"], 1, "no server answers"),
        (["unload", "reviews"], 2, "Name the VERSION to unload, or say --all"),
        (["unload", "reviews", "1", "--all"], 2, "Name the VERSION to unload, or say --all"),
        (["default", "reviews"], 2, "VERSION"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words, code, says) -> None:
    done = run(*words)
    assert done.exit_code == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_allows_no_changes_says_what_to_do(server) -> None:
    for words in (["load", "tiny"], ["unload", "tiny", "--all"], ["default", "tiny", "1"]):
        done = run(*words, "--target", server.address)
        assert done.exit_code == 1
        assert "--allow-admin" in done.stderr
