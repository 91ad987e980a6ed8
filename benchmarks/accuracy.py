"""Accuracy on public data sets: three seeds each, beside TF-IDF with logistic regression.

Run: python -m benchmarks.accuracy [NAME ...]

Every training has the defaults of `heedful train` and the options that stand in SETS, chosen on
validation. Runs that are finished are kept in runs/accuracy and not made again.
"""

import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.lengths import DATA

HEEDFUL = Path(sys.executable).with_name("heedful")
OUTPUT = Path("runs/accuracy")
SEEDS = (1, 2, 3)
FIGURES = (("validation", "accuracy"), ("test", "accuracy"), ("test", "macro_f1"))
SETS: dict[str, list[str]] = {
    "rotten-tomatoes": [],
    "sst2": [],
    # Few and short texts: smaller batches for more steps.
    "trec6": ["--tokens-per-batch", "256", "--epochs", "20"],
    "chnsenticorp_htl": [],
    "thucnews_titles": [],
}


def command(name: str, seed: int) -> list[str]:
    data = str(DATA / name) if (DATA / name).is_dir() else name
    output = OUTPUT / f"{name}-{seed}"
    return ["train", data, *SETS[name], "--seed", str(seed), "--output", str(output)]


def metrics_of(name: str, seed: int) -> dict[str, Any]:
    """Trains unless that was done before; the bundle's metrics."""
    words = command(name, seed)
    manifest = Path(words[-1]) / "bundle.json"
    if not manifest.exists():
        subprocess.run([HEEDFUL, *words], check=True)
    metrics: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))["metrics"]
    return metrics


def spread(values: list[float]) -> str:
    return f"{100 * statistics.mean(values):.1f} ± {100 * statistics.stdev(values):.1f}"


def row(name: str) -> str:
    runs = [metrics_of(name, seed) for seed in SEEDS]
    cells = [
        spread([run[split][figure] for run in runs])
        for split, figure in (
            ("validation", "accuracy"),
            ("test", "accuracy"),
            ("test", "macro_f1"),
        )
    ]
    baseline = 100 * runs[0]["baseline"]["test"]["accuracy"]
    words = command(name, SEEDS[0])
    words[1] = words[1].removeprefix(str(DATA.parents[1]) + "/")
    shown = shlex.join(["heedful", *words]).replace("--seed 1", "--seed SEED")
    return f"| {name} | {' | '.join(cells)} | {baseline:.1f} | `{shown}` |"


def main() -> None:
    names = sys.argv[1:] or list(SETS)
    rows = [row(name) for name in names if name == "rotten-tomatoes" or (DATA / name).is_dir()]
    print(f"\nMean and standard deviation over the seeds {SEEDS}, in percent:\n")
    print("| data set | validation accuracy | test accuracy | test macro F1 | TF-IDF | command |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))
    left_out = [name for name in names if name not in "\n".join(rows)]
    if left_out:
        print(f"\nNot at hand and left out: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
