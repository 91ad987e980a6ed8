"""`heedful tune`, the file it writes, and the server that reads it."""

import json

import pytest
from click.testing import CliRunner

from cli.main import main
from cli.serve import tuned_settings
from model.errors import SetupError
from service.quota import usable_cpus
from service.tuned import Tuned, read_tuned, unlike, write_tuned
from service.tuning import Measured, Setting, candidates, made_up_lengths, winner

TUNED = Tuned(
    cpus=4,
    model="tiny",
    version="abc",
    precision="float32",
    lengths="made up: mixed",
    texts_per_second=9.5,
    settings={"instances": 4, "threads": 1, "run_tokens": 128},
)


def tune(*words: object):
    return CliRunner().invoke(main, ["tune", *map(str, words)], catch_exceptions=False)


def test_what_won_is_shown_and_written_for_the_server(exported_bundle, tmp_path) -> None:
    lengths, output = tmp_path / "lengths.txt", tmp_path / "tuned.json"
    lengths.write_text("3\n\n40\n900\n")
    words = ("--lengths", lengths, "--rounds", 1, "--seconds", 0.02, "--output", output)
    done = tune(exported_bundle.path, *words)
    assert done.exit_code == 0, done.output
    tuned = read_tuned(output)
    assert tuned.cpus == usable_cpus()
    assert tuned.version == exported_bundle.manifest.version
    (marked,) = [line for line in done.stdout.splitlines() if line.startswith("*")]
    assert marked.split()[1:4] == [str(value) for value in tuned.settings.values()]
    assert unlike(tuned, usable_cpus(), exported_bundle.path) == []


@pytest.mark.parametrize("line", ["twelve", "0", "-3", "1.5"])
def test_a_line_that_is_no_length_is_named(exported_bundle, tmp_path, line) -> None:
    lengths = tmp_path / "lengths.txt"
    lengths.write_text(f"3\n{line}\n")
    done = tune(exported_bundle.path, "--lengths", lengths)
    assert done.exit_code == 1
    assert "line 2: a number of tokens" in done.output


def test_a_folder_that_is_no_bundle_is_said_plainly(tmp_path) -> None:
    done = tune(tmp_path)
    assert done.exit_code == 1
    assert "bundle.json" in done.output


def test_the_file_comes_back_as_it_was_written(tmp_path) -> None:
    write_tuned(tmp_path / "tuned.json", TUNED)
    assert read_tuned(tmp_path / "tuned.json") == TUNED
    assert [path.name for path in tmp_path.iterdir()] == ["tuned.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"settings": {"instances": 1}},
        {"settings": {"instances": 0, "threads": 1, "run_tokens": 1}},
        {"settings": {"instances": True, "threads": 1, "run_tokens": 1}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_file_of_another_kind_is_refused_with_what_to_do(tmp_path, change) -> None:
    path = tmp_path / "tuned.json"
    write_tuned(path, TUNED)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SetupError, match=r"no file of `heedful tune`.*heedful tune BUNDLE"):
        read_tuned(path)


@pytest.mark.parametrize("content", ["", "[]", "{", "3"])
def test_nonsense_is_refused_too(tmp_path, content) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(content)
    with pytest.raises(SetupError, match="no file of `heedful tune`"):
        read_tuned(path)


def test_another_machine_and_another_bundle_are_told(exported_bundle) -> None:
    processors, version = unlike(TUNED, 2, exported_bundle.path)
    assert "4 processors and 2" in processors
    assert "version abc" in version


def test_flags_and_environment_win_over_the_file(tmp_path, monkeypatch) -> None:
    from cli.serve import serve

    path = tmp_path / "tuned.json"
    write_tuned(path, TUNED)
    monkeypatch.setenv("HEEDFUL_SERVE_THREADS", "3")
    words = ["bundle", "--run-tokens", "99"]
    with serve.make_context("serve", words, auto_envvar_prefix="HEEDFUL_SERVE"):
        assert tuned_settings(path, None) == {"instances": 4}


def test_a_server_says_that_its_file_was_made_elsewhere(exported_bundle, tmp_path, caplog) -> None:
    path = tmp_path / "tuned.json"
    write_tuned(path, TUNED)
    words = ["serve", str(exported_bundle.path), "--tuned", str(path), "--metrics-port", "70000"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert "metrics_port must be at most 65535" in done.output
    assert "may not suit: it was made for tiny, version abc" in caplog.text


def test_the_settings_tried_fill_the_processors() -> None:
    shapes = {(setting.instances, setting.threads) for setting in candidates(8)}
    assert shapes == {(8, 1), (4, 2), (1, 8)}
    assert {setting.instances * setting.threads for setting in candidates(3)} == {3}
    assert {(s.instances, s.threads) for s in candidates(1)} == {(1, 1)}


def test_of_settings_as_fast_the_one_that_answers_sooner_wins() -> None:
    slow = Measured(Setting(1, 2, 64), [50.0], [0.1])
    fast = Measured(Setting(2, 1, 512), [100.0, 102.0], [0.9, 0.9])
    sooner = Measured(Setting(2, 1, 128), [99.0, 99.5], [0.5, 0.5])
    assert winner([slow, fast, sooner]) is sooner


def test_made_up_lengths_have_the_medians_that_they_say() -> None:
    lengths = sorted(made_up_lengths("short", 4001, longest=512))
    assert 23 <= lengths[2000] <= 25
    assert max(made_up_lengths("long", 1000, longest=512)) == 512
