"""Makes a bundle that a server can run without torch out of one that training wrote."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from export.graphs import GRAPHS, OPSET, trace
from export.parity import FIGURE_NAMES, TOLERANCE, Figures, measure_parity
from export.storage import save_graphs
from model.bundle import (
    GRAPH_WEIGHTS,
    MODEL_CARD,
    Bundle,
    load_bundle,
    new_bundle,
    refuse_existing,
    seal,
)
from model.weights import load_encoder

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
GRAPH_FILES = (*(graph.file for graph in GRAPHS), GRAPH_WEIGHTS)
CARD_HEADING = "## Graphs"


def export_bundle(
    source: Path, output: Path, report: Callable[[str], None] = lambda step: None
) -> Bundle:
    """Writes a new bundle at output: the source's files, both graphs and how exact they are.

    Args:
        source: a bundle; graphs it has already are not carried over but made anew.
        output: where nothing is yet.
        report: told about each step as it starts.

    Raises:
        BundleError: no good bundle at source, or something at output.
        ExportError: a graph came out wrong, or too far from PyTorch; nothing is written.
    """
    refuse_existing(output)
    report("reading the bundle")
    bundle = load_bundle(source)
    encoder = load_encoder(bundle)
    with new_bundle(output) as draft:
        kept = [name for name in bundle.files if name not in GRAPH_FILES]
        for name in kept:
            shutil.copyfile(bundle.file(name), draft / name)
        models = {}
        for graph in GRAPHS:
            report(f"tracing {graph.file}")
            models[graph.file] = trace(encoder, graph)
        report("writing the graphs over one file of weights")
        save_graphs(draft, models)
        report("comparing the graphs with PyTorch")
        measured = measure_parity(encoder, draft, bundle.text_encoder())
        _write_card(draft / MODEL_CARD, measured)
        manifest = replace(bundle.manifest, parity=_record(measured))
        seal(draft, manifest, list(dict.fromkeys([*kept, MODEL_CARD, *GRAPH_FILES])))
    return load_bundle(output)


def _record(measured: Mapping[str, Figures]) -> dict[str, Any]:
    return {
        "reference": "torch float32 on cpu",
        "opset": OPSET,
        "versions": {package: version(package) for package in PACKAGES},
        "tolerance": asdict(TOLERANCE),
        "cases": {name: asdict(figures) for name, figures in measured.items()},
    }


def _write_card(path: Path, measured: Mapping[str, Figures]) -> None:
    """Appends how exact the graphs are; of an earlier export nothing is left."""
    card = path.read_text(encoding="utf-8") if path.exists() else ""
    before = card.partition(f"{CARD_HEADING}\n")[0].rstrip()
    rows = [
        f"| {name} | " + " | ".join(f"{value:.1e}" for value in asdict(figures).values()) + " |"
        for name, figures in measured.items()
    ]
    section = [
        CARD_HEADING,
        "",
        f"ONNX opset {OPSET}, float32. Largest difference from PyTorch, absolute:",
        "",
        "| case | " + " | ".join(name.replace("_", " ") for name in FIGURE_NAMES) + " |",
        "|---" * (1 + len(FIGURE_NAMES)) + "|",
        *rows,
    ]
    text = "\n".join([before, "", *section]).lstrip() + "\n"
    path.write_text(text, encoding="utf-8")
