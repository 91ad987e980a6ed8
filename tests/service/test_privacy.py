import os
import subprocess
import sys

LOAD = """
import sys
from model.bundle import load_bundle
from service.backends.loading import load_backend
load_backend("onnx", load_bundle(sys.argv[1]), threads=1)
"""


def test_the_engine_reports_to_nobody_and_leaves_nothing_in_the_home_folder(
    exported_bundle, tmp_path
) -> None:
    # ONNX Runtime is quiet on CI machines by itself, which would hide what users get.
    hidden = {"CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "GITHUB_ACTIONS"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["HOME"] = str(tmp_path)
    subprocess.run(
        [sys.executable, "-c", LOAD, exported_bundle.path], env=environment, check=True, timeout=60
    )
    assert not list(tmp_path.iterdir())
