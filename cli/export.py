"""heedful export: a trained bundle in, a bundle that a server can run out."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.errors import plain_errors

if TYPE_CHECKING:
    from model.bundle import Bundle

# Figure in bundle.json -> heading of the table.
COLUMNS = {
    "classify_logits": "logits",
    "attention_logits": "logits beside attention",
    "attentions": "attention",
    "row_sums": "row sums",
}


@click.command(
    epilog="Example: heedful export runs/reviews writes runs/reviews-onnx, ready for "
    "`heedful serve runs/reviews-onnx`."
)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The folder to write; there must be nothing yet.  [default: BUNDLE-onnx]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def export(bundle: Path, output: Path | None, as_json: bool) -> None:
    """Turn BUNDLE into ONNX graphs, checked against PyTorch.

    BUNDLE is not changed: a new folder holds everything it had, the graphs and how exact they are.
    A graph that answers differently from PyTorch is refused.
    """
    from export.bundle import export_bundle
    from model.errors import HeedfulError

    with plain_errors(HeedfulError, OSError):
        written = export_bundle(bundle, output or _beside(bundle), _say)
    click.echo(json.dumps(_record(written)) if as_json else _table(written))


def _beside(bundle: Path) -> Path:
    folder = bundle if bundle.name not in {"", ".."} else bundle.resolve()
    return folder.with_name(f"{folder.name}-onnx")


def _say(step: str) -> None:
    """Tracing takes seconds: a line a step, out of the way of what programs read."""
    click.echo(f"{step} ...", err=True)


def _sizes(bundle: "Bundle") -> dict[str, int]:
    """Bytes of the files that the graphs and weights lie in."""
    names = [name for name in bundle.files if name.endswith((".onnx", ".bin", ".safetensors"))]
    return {name: bundle.file(name).stat().st_size for name in sorted(names)}


def _record(bundle: "Bundle") -> dict[str, Any]:
    manifest = asdict(bundle.manifest)
    fields = {key: manifest[key] for key in ("name", "version", "parity")}
    return {"bundle": str(bundle.path), **fields, "bytes": _sizes(bundle)}


def _table(bundle: "Bundle") -> str:
    lines = [f"{bundle.manifest.name} {bundle.manifest.version} is in {bundle.path}", ""]
    lines += [f"  {name:<22}{_human(size):>12}" for name, size in _sizes(bundle).items()]
    lines += ["", "Largest difference from PyTorch:"]
    parity = bundle.manifest.parity
    lines.append(_row("", COLUMNS.values()))
    for name, figures in parity["cases"].items():
        lines.append(_row(name, (f"{figures[key]:.1e}" for key in COLUMNS)))
    lines.append(_row("allowed", (f"{parity['tolerance'][key]:.0e}" for key in COLUMNS)))
    lines += ["", f"Next: heedful serve {bundle.path}"]
    return "\n".join(lines)


def _row(name: str, cells: Iterable[str]) -> str:
    widths = [max(9, len(heading)) for heading in COLUMNS.values()]
    return f"  {name:<16}" + "".join(
        f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True)
    )


def _human(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
