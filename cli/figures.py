"""Prints how good a classifier is: summary, table of classes, confusion matrix."""

# Figures come out of bundle.json: Any stands for its numbers, lists and tables.
from typing import Any

import click

from heedful.pictures.cells import cells, pad


def print_summary(split: str, rows: dict[str, dict[str, Any]]) -> None:
    """Accuracy and macro F1 of several classifiers on one split, by name."""
    width = max(map(len, rows))
    for name, figures in rows.items():
        click.echo(
            f"{split:<10}  {name:<{width}}  accuracy {figures['accuracy']:7.2%}  "
            f"macro F1 {figures['macro_f1']:7.2%}"
        )


def print_figures(figures: dict[str, Any]) -> None:
    """The table of classes, calibration, and the confusion matrix where there is one."""
    table = [["label", "precision", "recall", "F1", "texts"]]
    for row in figures["per_class"]:
        shares = [f"{row[name]:.2%}" for name in ("precision", "recall", "f1")]
        table.append([row["label"], *shares, str(row["support"])])
    print_table(table)
    if "ece" in figures:
        click.echo(f"calibration error {figures['ece']:.4f} (15 bins), ", nl=False)
    click.echo(f"negative log-likelihood {figures['nll']:.4f}")
    if "confusion" in figures:
        labels = [row["label"] for row in figures["per_class"]]
        click.echo()
        rows = zip(labels, figures["confusion"], strict=True)
        print_table(
            [["true \\ predicted", *labels], *([label, *map(str, row)] for label, row in rows)]
        )


def print_table(rows: list[list[str]]) -> None:
    """Columns as wide as their widest cell; the first is left-aligned, the others right."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        parts = [pad(cell, widths[index], right=index > 0) for index, cell in enumerate(row)]
        click.echo("  ".join(parts).rstrip())
