"""Reads labelled texts for a bundle that is there already: to score it, or to quantize it."""

import sys
from typing import TYPE_CHECKING, Any

import click

from cli.data_options import take_columns

if TYPE_CHECKING:
    from model.bundle import Bundle
    from model.data.dataset import Source
    from model.training.batches import EncodedTexts


def encode_labelled(
    bundle: "Bundle", data: str, split: Any, given: dict[str, Any]
) -> tuple["EncodedTexts", "Source"]:
    """A split of a data set, encoded for the bundle, and where it is from.

    Args:
        split: train, validation, test or all.
        given: the options of cli.data_options, and truncation; those that are missing or None are
            as in training.

    Raises:
        DataError: not found, not what it should be, or labels that the bundle does not know.
    """
    from model.data.dataset import draw
    from model.data.load import load_examples
    from model.errors import DataError
    from model.training.batches import encode_texts
    from model.training.progress import watched

    manifest = bundle.manifest
    chosen = {"split_seed": given["split_seed"]} if given["split_seed"] is not None else {}
    examples, raw = load_examples(
        data, split, take_columns(given), skip_bad_rows=given["skip_bad_rows"], **chosen
    )
    for note in raw.source.notes:
        click.echo(note, err=True)
    if raw.problem_type != manifest.problem_type:
        raise DataError(
            f"{data} is {raw.problem_type} and the bundle {manifest.problem_type}: name the "
            "column with --label or --labels"
        )
    recipe = manifest.provenance.get("recipe", {})
    truncation = given.get("truncation") or recipe.get("text", {}).get("truncation", "head_tail")
    texts = encode_texts(
        watched(sys.stderr)(draw(examples, given["limit"]), "texts"),
        bundle.text_encoder(),
        manifest.labels,
        manifest.problem_type,
        truncation,
    )
    return texts, raw.source
