"""The model card: what the classifier is for, what it learned from, how good it is, its limits."""

from typing import Any

from model.config import EncoderConfig
from model.data.dataset import Dataset


def model_card(
    name: str,
    dataset: Dataset,
    config: EncoderConfig,
    metrics: dict[str, Any],
    provenance: dict[str, Any],
) -> str:
    """MODEL_CARD.md as text, from the figures that also go into bundle.json."""
    sections = [
        f"# {name}",
        _intended_use(dataset, config),
        _data(dataset),
        _figures(metrics),
        *(_split_tables(split, metrics[split]) for split in ("validation", "test")),
        _limits(dataset, config, metrics),
        f"## How it was made\n\n```\n{provenance['command']}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def _intended_use(dataset: Dataset, config: EncoderConfig) -> str:
    several = "any number of" if dataset.problem_type == "multi_label" else "one of"
    return (
        "## Intended use\n\n"
        f"Gives a text {several} the labels {_listed(dataset.labels)}. A Transformer encoder of "
        f"{config.num_hidden_layers} layers, {config.hidden_size} wide, trained from scratch on "
        "the data below and on nothing else. Use it for texts like those; look at its attention "
        "maps as hints, not as reasons."
    )


def _data(dataset: Dataset) -> str:
    source = dataset.source
    rows = ", ".join(f"{count:,} {split}" for split, count in dataset.num_rows.items())
    lines = [f"- source: {source.name}", f"- texts: {rows}"]
    lines += [f"- {note}" for note in source.notes]
    lines += [f"- {file}: {value}" for file, value in source.fingerprints.items()]
    credit = f"\n\n{source.credit}" if source.credit else ""
    return "## Data\n\n" + "\n".join(lines) + credit


def _figures(metrics: dict[str, Any]) -> str:
    baseline = metrics["baseline"]
    rows = ["| | accuracy | macro F1 |", "|---|--:|--:|"]
    for split in ("validation", "test"):
        for who, figures in (("this model", metrics[split]), (baseline["name"], baseline[split])):
            rows.append(
                f"| {who}, {split} | {figures['accuracy']:.2%} | {figures['macro_f1']:.2%} |"
            )
    return "## Figures\n\n" + "\n".join(rows)


def _split_tables(split: str, figures: dict[str, Any]) -> str:
    lines = [
        f"### {split}, {figures['num_texts']:,} texts",
        "",
        "| label | precision | recall | F1 | texts |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {_cell(row['label'])} | {row['precision']:.2%} | {row['recall']:.2%} | "
        f"{row['f1']:.2%} | {row['support']:,} |"
        for row in figures["per_class"]
    ]
    if "confusion" in figures:
        names = [_cell(row["label"]) for row in figures["per_class"]]
        lines += [
            "",
            f"| true \\ predicted | {' | '.join(names)} |",
            "|---" * (len(names) + 1) + "|",
        ]
        lines += [
            f"| {label} | {' | '.join(map(str, counts))} |"
            for label, counts in zip(names, figures["confusion"], strict=True)
        ]
    calibration = f"Mean negative log-likelihood {figures['nll']:.4f}"
    if "ece" in figures:
        calibration += f", expected calibration error (15 bins) {figures['ece']:.4f}"
    return "\n".join([*lines, "", calibration + "."])


def _limits(dataset: Dataset, config: EncoderConfig, metrics: dict[str, Any]) -> str:
    lines = [
        f"- Texts of more than {config.max_position_embeddings} tokens do not fit; "
        f"{sum(metrics['texts_truncated'].values()):,} texts of this data were cut.",
        "- It knows only the words, language and opinions of its training texts, and their biases.",
        "- Probabilities are as far off as the calibration error above says, and further on "
        "texts of another kind.",
    ]
    accuracy, baseline = metrics["test"]["accuracy"], metrics["baseline"]["test"]["accuracy"]
    if accuracy < baseline:
        lines.append(
            f"- TF-IDF with logistic regression is better on this test ({baseline:.2%} against "
            f"{accuracy:.2%}): prefer it where attention maps are not needed."
        )
    return "## Limits\n\n" + "\n".join(lines)


def _listed(labels: list[str]) -> str:
    return ", ".join(labels)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
