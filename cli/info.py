"""`heedful info`: what a server serves, or what a bundle holds."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli.asking import AS_JSON, asking, say, server_options
from cli.errors import plain_errors
from heedful import InvalidArgumentError
from heedful.tokens import visible

READY_SECONDS = 60.0


@click.command(
    epilog="""\b
Examples:
  heedful info
  heedful info --target models.example:50051 --ready && echo serving
  heedful info runs/reviews-onnx

\b
--json prints one object: for a server the fields of GetModel and "models", all of ListModels; for
a bundle the fields of bundle.json and its config.
Exit code: 0 there, 1 not there or not whole, 2 wrong usage.
"""
)
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@server_options
@click.option(
    "--ready", is_flag=True, help=f"Wait until it serves, at most {READY_SECONDS:.0f} seconds."
)
@click.option("--model", default="", help="Which of a server's models; needed if it has several.")
@click.option("--version", default="", help="Which version of it; the default one unless named.")
@AS_JSON
def info(
    bundle: Path | None,
    target: str,
    timeout: float,
    ready: bool,
    model: str,
    version: str,
    as_json: bool,
) -> None:
    """Describe the served models, or the folder BUNDLE after checking its files."""
    if bundle and ready:
        raise click.UsageError("--ready waits for a server, and BUNDLE is a folder.")
    if bundle and (model or version):
        raise click.UsageError("--model and --version choose at a server, and BUNDLE is a folder.")
    record = _of_bundle(bundle) if bundle else _of_server(target, timeout, ready, model, version)
    if as_json:
        say(json.dumps(record, ensure_ascii=False))
    else:
        record.get("parity", {}).pop("cases", None)  # dozens of figures; --json has them
        models = record.pop("models", [])
        say("\n".join([*_lines(record, ""), *_model_lines(models)]))


def _of_server(
    target: str, timeout: float, ready: bool, model: str, version: str
) -> dict[str, Any]:
    with asking(target, timeout) as client:
        if ready:
            client.wait_until_ready(READY_SECONDS)
        models = [asdict(row) for row in client.list_models()]
        try:
            described = asdict(client.model_info(model, version))
        except InvalidArgumentError:
            if model:
                raise
            described = {}  # several models and none named: the list says what can be
        return {**described, "models": models}


def _of_bundle(path: Path) -> dict[str, Any]:
    from model.bundle import load_bundle
    from model.errors import BundleError

    with plain_errors(BundleError):
        bundle = load_bundle(path)
    manifest = asdict(bundle.manifest)
    del manifest["golden"]  # for machines
    sizes = {name: (path / name).stat().st_size for name in sorted(bundle.files)}
    return {**manifest, "config": asdict(bundle.config), "file_bytes": sizes}


def _lines(record: dict[str, Any], indent: str) -> list[str]:
    """One line a field, nested fields indented; empty ones left out."""
    lines = []
    for name, value in record.items():
        label = f"{indent}{visible(name).replace('_', ' '):<24}"
        if isinstance(value, dict):
            if value:
                lines += [label.rstrip(), *_lines(value, indent + "  ")]
        elif isinstance(value, list | tuple):
            lines.append(f"{label} {', '.join(visible(str(item)) for item in value)}")
        elif value not in {"", None}:
            shown = f"{value:.3g}" if isinstance(value, float) else visible(str(value))
            lines.append(f"{label} {shown}")
    return lines


def _model_lines(models: list[dict[str, Any]]) -> list[str]:
    """One line a version, and where it stands; none for a server's only version."""
    if len(models) == 1 and not models[0]["reason"]:
        return []
    lines = ["versions"] if models else []
    for row in models:
        label = f"  {visible(row['model'])} {visible(row['version'])}"
        standing = (row["state"], "default" if row["is_default"] else "", visible(row["reason"]))
        lines.append(f"{label:<24} {', '.join(filter(None, standing))}")
    return lines
