"""heedful evaluate: a bundle and labelled texts in, figures out."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.data_options import data_options
from cli.errors import plain_errors
from cli.labelled import encode_labelled

if TYPE_CHECKING:
    from model.bundle import Bundle

EXAMPLES = """\b
Examples:
  heedful evaluate runs/reviews rotten-tomatoes
  heedful evaluate runs/stars new.csv --text body --label stars --split all
  heedful evaluate runs/reviews-onnx rotten-tomatoes --backend onnx --json
"""
TOKENS_PER_BATCH = 4096


@click.command(epilog=EXAMPLES)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option(
    "--split",
    type=click.Choice(["train", "validation", "test", "all"]),
    default="test",
    show_default=True,
    help="all takes every row; a split that is missing is cut out of train as training cuts it.",
)
@data_options
@click.option(
    "--backend",
    type=click.Choice(["torch", "onnx"]),
    default="torch",
    show_default=True,
    help="onnx runs the bundle that `heedful export` wrote.",
)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@click.option(
    "--threads", type=click.IntRange(min=1), help="[default: the cores this process may use]"
)
@click.option(
    "--truncation",
    type=click.Choice(["error", "head", "tail", "head_tail"]),
    help="What to keep of longer texts.  [default: as in training]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def evaluate(bundle: Path, data: str, **given: Any) -> None:
    """Score BUNDLE on labelled texts of DATA: accuracy, macro F1, per class, confusion.

    DATA is what `heedful train` takes. Its labels must be among the bundle's.
    """
    from model.bundle import load_bundle
    from model.errors import HeedfulError

    with plain_errors(HeedfulError, OSError):
        figures = _score(load_bundle(bundle), data, given)
    if given["as_json"]:
        click.echo(json.dumps(figures, ensure_ascii=False))
    else:
        _print(figures)


def _score(bundle: "Bundle", data: str, given: dict[str, Any]) -> dict[str, Any]:
    from model.training.metrics import score
    from model.training.prediction import predict
    from model.training.progress import watched
    from model.training.run import usable_cores
    from service.backends.loading import load_backend

    texts, source = encode_labelled(bundle, data, given["split"], given)
    threads = given["threads"] or usable_cores()
    backend = load_backend(given["backend"], bundle, device=given["device"], threads=threads)
    logits = predict(
        backend.run,
        texts,
        TOKENS_PER_BATCH,
        bundle.config.pad_token_id,
        watched(sys.stderr),
    )
    manifest = bundle.manifest
    return {
        "bundle": manifest.name,
        "version": manifest.version,
        "data": source.name,
        "split": given["split"],
        "backend": backend.name,
        "device": backend.device,
        "precision": backend.precision,
        "texts_truncated": texts.num_truncated,
        **score(logits, texts.targets.numpy(), manifest.labels, manifest.problem_type),
    }


def _print(figures: dict[str, Any]) -> None:
    from cli.figures import print_figures, print_summary

    name = f"{figures['bundle']} ({figures['backend']}, {figures['device']})"
    print_summary(figures["split"], {name: figures})
    if figures["texts_truncated"]:
        click.echo(f"{figures['texts_truncated']:,} texts were too long and were cut")
    click.echo()
    print_figures(figures)
