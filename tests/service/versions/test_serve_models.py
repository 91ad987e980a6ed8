"""`heedful serve` with a folder of models, as a process."""

import shutil
import signal

from click.testing import CliRunner

from cli.main import main
from heedful import Client
from tests.service.calls import TIMEOUT
from tests.service.processes import serving


def test_a_process_follows_its_folder_and_stops_cleanly(exported_bundle, tmp_path) -> None:
    reviews = tmp_path / "models" / "reviews"
    shutil.copytree(exported_bundle.path, reviews / "1")
    folder = f"--models={tmp_path / 'models'}"
    with serving(folder, "--poll-seconds", "0.05") as process:
        assert "model reviews, version 1, float32" in process.log
        shutil.copytree(exported_bundle.path, reviews / ".2")
        (reviews / ".2").rename(reviews / "2")
        process.wait_for("loaded model reviews, version 2")
        with Client(process.address) as client:
            assert client.classify("A kind film", timeout=TIMEOUT).version in {"1", "2"}
        process.send(signal.SIGTERM)
        assert process.ended() == 0
    assert "all that was accepted is answered" in process.log
    assert "Traceback" not in process.log


def test_a_server_of_nothing_is_a_wrong_usage() -> None:
    done = CliRunner().invoke(main, ["serve"])
    assert done.exit_code == 2
    assert "--models DIR" in done.stderr
