"""`heedful serve` with a folder of models, as a process."""

import shutil

from click.testing import CliRunner

from cli.main import main
from heedful import Client
from tests.service.calls import TIMEOUT
from tests.service.test_signals import serving


def test_a_process_follows_its_folder_and_stops_cleanly(exported_bundle, tmp_path) -> None:
    reviews = tmp_path / "models" / "reviews"
    shutil.copytree(exported_bundle.path, reviews / "1")
    folder = f"--models={tmp_path / 'models'}"
    with serving(folder, "--poll-seconds", "0.05") as (process, address, lines):
        assert "model reviews, version 1, float32" in lines[-1]
        shutil.copytree(exported_bundle.path, reviews / ".2")
        (reviews / ".2").rename(reviews / "2")
        for line in process.stderr:
            if "loaded model reviews, version 2" in line:
                break
        with Client(address) as client:
            assert client.classify("A kind film", timeout=TIMEOUT).version in {"1", "2"}
        process.terminate()
        _, log = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert "all that was accepted is answered" in log
    assert "Traceback" not in log


def test_a_server_of_nothing_is_a_wrong_usage() -> None:
    done = CliRunner().invoke(main, ["serve"])
    assert done.exit_code == 2
    assert "--models DIR" in done.stderr
