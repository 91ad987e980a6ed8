"""Runs every short measure, one after another, each in a process of its own.

Run: make bench
"""

import platform
import subprocess
import sys
from importlib.metadata import version

MEASURES = (
    "training",
    "packing",
    "attention",
    "attention_answer",
    "int8",
    "serving_overhead",
    "serving",
)
PACKAGES = ("torch", "onnxruntime", "grpcio", "tokenizers", "numpy")


def main() -> None:
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    print(f"Python {platform.python_version()}, {versions}\n", flush=True)
    for measure in MEASURES:
        print(f"== python -m benchmarks.{measure}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{measure}"], check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
