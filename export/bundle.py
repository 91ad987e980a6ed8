"""Makes a bundle that a server can run without torch out of one that training wrote."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from export.accuracy import Quantization, measure_accuracy
from export.graphs import ATTENTION, CLASSIFY, GRAPHS, OPSET, trace
from export.int8 import int8_graph
from export.parity import FIGURE_NAMES, TOLERANCES, Figures, measure_parity
from export.storage import save_graphs
from model.bundle import (
    GRAPH_WEIGHTS,
    MODEL_CARD,
    Bundle,
    Manifest,
    Precision,
    load_bundle,
    new_bundle,
    refuse_existing,
    seal,
)
from model.encoder import EncoderClassifier
from model.weights import load_encoder

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
GRAPH_FILES = (*(graph.file for graph in GRAPHS), GRAPH_WEIGHTS)
CARD_HEADING = "## Graphs"


def export_bundle(
    source: Path,
    output: Path,
    report: Callable[[str], None] = lambda step: None,
    quantization: Quantization | None = None,
) -> Bundle:
    """Writes a new bundle at output: the source's files, both graphs and how exact they are.

    Args:
        source: a bundle; graphs it has already are not carried over but made anew.
        output: where nothing is yet.
        report: told about each step as it starts.
        quantization: makes classify.onnx compute in int8, and says what to measure it on.

    Raises:
        BundleError: no good bundle at source, or something at output.
        ExportError: a graph came out wrong, or too far from PyTorch; nothing is written.
    """
    refuse_existing(output)
    report("reading the bundle")
    bundle = load_bundle(source)
    encoder = load_encoder(bundle)
    precision: Precision = "int8" if quantization else "float32"
    with new_bundle(output) as draft:
        kept = [name for name in bundle.files if name not in GRAPH_FILES]
        for name in kept:
            shutil.copyfile(bundle.file(name), draft / name)
        _write_graphs(draft, encoder, precision, report)
        report("comparing the graphs with PyTorch")
        measured = measure_parity(encoder, draft, bundle.text_encoder(), precision)
        metrics = {key: value for key, value in bundle.manifest.metrics.items() if key != "int8"}
        if quantization:
            report("comparing the accuracy of int8 and float32")
            metrics["int8"] = measure_accuracy(encoder, draft, bundle.manifest, quantization)
        manifest = replace(
            bundle.manifest,
            metrics=metrics,
            parity=_record(measured, precision),
            precision=precision,
        )
        _write_card(draft / MODEL_CARD, manifest, measured)
        seal(draft, manifest, list(dict.fromkeys([*kept, MODEL_CARD, *GRAPH_FILES])))
    return load_bundle(output)


def _write_graphs(
    folder: Path, encoder: EncoderClassifier, precision: Precision, report: Callable[[str], None]
) -> None:
    if precision == "int8":
        report(f"quantizing {CLASSIFY.file}")
        models = {CLASSIFY.file: int8_graph(encoder)}
    else:
        report(f"tracing {CLASSIFY.file}")
        models = {CLASSIFY.file: trace(encoder, CLASSIFY)}
    report(f"tracing {ATTENTION.file}")
    models[ATTENTION.file] = trace(encoder, ATTENTION)
    report("writing the graphs over one file of weights")
    save_graphs(folder, models)


def _record(measured: Mapping[str, Figures], precision: Precision) -> dict[str, Any]:
    return {
        "reference": "torch float32 on cpu",
        "opset": OPSET,
        "versions": {package: version(package) for package in PACKAGES},
        "tolerance": asdict(TOLERANCES[precision]),
        "cases": {name: asdict(figures) for name, figures in measured.items()},
    }


def _write_card(path: Path, manifest: Manifest, measured: Mapping[str, Figures]) -> None:
    """Appends how exact the graphs are; of an earlier export nothing is left."""
    card = path.read_text(encoding="utf-8") if path.exists() else ""
    before = card.partition(f"{CARD_HEADING}\n")[0].rstrip()
    section = [CARD_HEADING, "", *_parity_lines(manifest, measured)]
    if manifest.precision == "int8":
        section += ["", *_accuracy_lines(manifest.metrics["int8"])]
    text = "\n".join([before, "", *section]).lstrip() + "\n"
    path.write_text(text, encoding="utf-8")


def _parity_lines(manifest: Manifest, measured: Mapping[str, Figures]) -> list[str]:
    rows = [
        f"| {name} | " + " | ".join(f"{value:.1e}" for value in asdict(figures).values()) + " |"
        for name, figures in measured.items()
    ]
    numbers = {
        "float32": "float32",
        "int8": f"{CLASSIFY.file} int8 (a scale for each output of a weight and for each token), "
        f"{ATTENTION.file} float32",
    }
    return [
        f"ONNX opset {OPSET}, {numbers[manifest.precision]}. "
        "Largest difference from PyTorch in float32, absolute:",
        "",
        "| case | " + " | ".join(name.replace("_", " ") for name in FIGURE_NAMES) + " |",
        "|---" * (1 + len(FIGURE_NAMES)) + "|",
        *rows,
    ]


def _accuracy_lines(measured: Mapping[str, Any]) -> list[str]:
    if "float32" not in measured:
        return ["How accurate int8 is was not measured: it was exported with --force."]
    lines = [
        f"Accuracy of int8 on {measured['split']} of {measured['data']}, "
        f"{measured['num_texts']:,} texts:",
        "",
        "| | accuracy | macro F1 |",
        "|---|--:|--:|",
    ]
    for name in ("float32", "int8"):
        figures = measured[name]
        lines.append(f"| {name} | {figures['accuracy']:.2%} | {figures['macro_f1']:.2%} |")
    lines += [
        "",
        f"{measured['answers_changed']:,} answers differ; the largest difference of a logit is "
        f"{measured['largest_logit_difference']:.2g}.",
    ]
    if measured["forced"]:
        lines.append("The loss is more than is allowed: it was exported with --force.")
    return lines
