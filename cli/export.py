"""heedful export: a trained bundle in, a bundle that a server can run out."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cli.data_options import data_options
from cli.errors import plain_errors
from cli.labelled import encode_labelled

if TYPE_CHECKING:
    from export.accuracy import Quantization
    from model.bundle import Bundle
    from model.data.dataset import Source

EXAMPLES = """\b
Examples:
  heedful export runs/reviews
  heedful export runs/reviews --precision int8
  heedful export runs/stars --precision int8 --data new.csv --text body --label stars --split all
"""
# Figure in bundle.json -> heading of the table.
COLUMNS = {
    "classify_logits": "logits",
    "attention_logits": "with attention",
    "attentions": "attention",
    "row_sums": "row sums",
    "neighbours": "neighbours",
}
SUFFIXES = {"float32": "onnx", "int8": "int8"}
FOR_FLOAT32 = {"bundle", "output", "precision", "as_json"}


@click.command(epilog=EXAMPLES)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The folder to write; there must be nothing yet.  [default: BUNDLE-onnx or BUNDLE-int8]",
)
@click.option(
    "--precision",
    type=click.Choice(list(SUFFIXES)),
    default="float32",
    show_default=True,
    help="int8: 1.5 (tiny) to 2.5 times (base) as fast on a CPU; maps stay float32.",
)
@click.option(
    "--data",
    help="What to measure int8 on, as for `heedful evaluate`.  [default: what BUNDLE learned from]",
)
@click.option(
    "--split",
    type=click.Choice(["validation", "test", "all"]),
    default="validation",
    show_default=True,
    help="The part of DATA to measure int8 on.",
)
@data_options
@click.option(
    "--force",
    is_flag=True,
    help="Write int8 even if it loses more than 0.5 points of accuracy, or cannot be measured.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def export(
    ctx: click.Context, /, bundle: Path, output: Path | None, as_json: bool, **given: Any
) -> None:
    """Turn BUNDLE into ONNX graphs, checked against PyTorch.

    BUNDLE is not changed: a new folder holds everything it had, the graphs and how exact they are.
    A graph that answers differently from PyTorch is refused; so is int8 that loses accuracy.
    """
    from export.bundle import export_bundle
    from model.bundle import load_bundle, refuse_existing
    from model.errors import HeedfulError

    precision: str = given.pop("precision")
    if precision == "float32":
        _refuse_options(ctx)
    output = output or _beside(bundle, SUFFIXES[precision])
    with plain_errors(HeedfulError, OSError):
        refuse_existing(output)
        quantization = _quantization(load_bundle(bundle), given) if precision == "int8" else None
        written = export_bundle(bundle, output, _say, quantization)
    click.echo(json.dumps(_record(written)) if as_json else _table(written))


def _refuse_options(ctx: click.Context) -> None:
    given = [
        "--" + name.replace("_", "-")
        for name in ctx.params
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE and name not in FOR_FLOAT32
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)} is for --precision int8 only.")


def _quantization(bundle: "Bundle", given: dict[str, Any]) -> "Quantization":
    """What to measure int8 on: the data that was named, or that the bundle learned from."""
    from export.accuracy import LabelledTexts, Quantization
    from model.errors import DataError

    named, split, force = given["data"], given["split"], given["force"]
    try:
        if named:
            texts, source = encode_labelled(bundle, named, split, given)
        else:
            learned_from = _learned_from(bundle)
            texts, source = encode_labelled(bundle, learned_from["name"], split, given)
            _check_same(source, learned_from)
    except (DataError, OSError) as error:
        if named or not force:
            advice = "" if named else "; name labelled texts with --data, or use --force"
            raise DataError(f"int8 cannot be measured: {error}{advice}") from None
        _say(f"int8 is not measured: {error}")
        return Quantization(measured_on=None, force=True)
    measured_on = LabelledTexts(texts=texts, source=source, split=split)
    return Quantization(measured_on=measured_on, force=force)


def _learned_from(bundle: "Bundle") -> dict[str, Any]:
    from model.errors import DataError

    data = bundle.manifest.provenance.get("data")
    if not isinstance(data, dict) or not {"name", "fingerprints", "notes"} <= set(data):
        raise DataError(f"{bundle.path} does not say what it learned from")
    return data


def _check_same(source: "Source", learned_from: dict[str, Any]) -> None:
    """The same files, cut the same way: otherwise training has seen what is measured on."""
    from model.errors import DataError

    if source.fingerprints != learned_from["fingerprints"]:
        raise DataError(f"{source.name} has changed since the bundle learned from it")
    if not set(source.notes) <= set(learned_from["notes"]):
        raise DataError(
            f"{source.name} was read with other options when the bundle learned from it"
        )


def _beside(bundle: Path, suffix: str) -> Path:
    folder = bundle if bundle.name not in {"", ".."} else bundle.resolve()
    return folder.with_name(f"{folder.name}-{suffix}")


def _say(step: str) -> None:
    """Tracing takes seconds: a line a step, out of the way of what programs read."""
    click.echo(f"{step} ...", err=True)


def _sizes(bundle: "Bundle") -> dict[str, int]:
    """Bytes of the files that the graphs and weights lie in."""
    names = [name for name in bundle.files if name.endswith((".onnx", ".bin", ".safetensors"))]
    return {name: bundle.file(name).stat().st_size for name in sorted(names)}


def _record(bundle: "Bundle") -> dict[str, Any]:
    manifest = asdict(bundle.manifest)
    fields = {key: manifest[key] for key in ("name", "version", "precision", "parity")}
    accuracy = manifest["metrics"].get("int8", {})
    sizes = _sizes(bundle)
    return {"bundle": str(bundle.path), **fields, "accuracy": accuracy, "bytes": sizes}


def _table(bundle: "Bundle") -> str:
    lines = [f"{bundle.manifest.name} {bundle.manifest.version} is in {bundle.path}", ""]
    lines += [f"  {name:<22}{_human(size):>12}" for name, size in _sizes(bundle).items()]
    lines += ["", "Largest difference from PyTorch:"]
    parity = bundle.manifest.parity
    lines.append(_row("", COLUMNS.values()))
    for name, figures in parity["cases"].items():
        lines.append(_row(name, (f"{figures[key]:.1e}" for key in COLUMNS)))
    lines.append(_row("allowed", (f"{parity['tolerance'][key]:.2g}" for key in COLUMNS)))
    if bundle.manifest.precision == "int8":
        lines += ["", *_accuracy(bundle.manifest.metrics["int8"])]
    lines += ["", f"Next: heedful serve {bundle.path}"]
    return "\n".join(lines)


def _accuracy(measured: dict[str, Any]) -> list[str]:
    if "float32" not in measured:
        return ["The accuracy of int8 was not measured."]
    float32, int8 = (measured[name]["accuracy"] for name in ("float32", "int8"))
    return [
        f"Accuracy on {measured['split']} of {measured['data']}, {measured['num_texts']:,} texts:",
        f"  float32 {float32:.2%}, int8 {int8:.2%} ({100 * (int8 - float32):+.2f} points), "
        f"{measured['answers_changed']:,} answers differ",
    ]


def _row(name: str, cells: Iterable[str]) -> str:
    widths = [max(9, len(heading)) for heading in COLUMNS.values()]
    return f"  {name:<15}" + "".join(
        f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True)
    )


def _human(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
