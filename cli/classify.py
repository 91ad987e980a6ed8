"""`heedful classify`: asks a server for the labels of texts."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO

import click

from cli.answers import answer_record
from cli.asking import AS_JSON, TRUNCATION, asking, say, server_options
from heedful import Classification, Client, RequestError
from heedful.pictures.cells import cells, clip, pad
from heedful.requests import Text, Truncation
from heedful.streaming import in_order
from heedful.tokens import visible

BAR_WIDTH = 30
Texts = tuple[str, ...]


@click.command(
    epilog="""\b
Examples:
  heedful classify "A film that warms the heart."
  heedful classify --top-k 1 "First text." "Second text."
  heedful classify --pair "A man sleeps." "Somebody rests."
  heedful classify --file reviews.txt --json > answers.jsonl
  cat reviews.txt | heedful classify --file -

\b
--json prints one object a line: text, text_pair (with --pair), labels (label, index,
probability, logit, applies), truncated, model, version, backend, precision, timings.
Exit code: 0 all answered, 1 not, 2 wrong usage.
"""
)
@click.argument("texts", metavar="TEXT...", nargs=-1)
@server_options
@click.option(
    "--file",
    "lines",
    metavar="FILE",
    type=click.File("rb"),
    help="Classify each line of a UTF-8 file; - reads standard input. With --pair, a tab "
    "parts the two texts of a line.",
)
@click.option("--pair", is_flag=True, help="Read two texts together: give exactly two.")
@click.option(
    "--top-k",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many labels to show, the most probable first; 0 shows all.",
)
@TRUNCATION
@AS_JSON
def classify(
    texts: Texts,
    target: str,
    timeout: float,
    lines: IO[bytes] | None,
    pair: bool,
    top_k: int,
    truncation: Truncation,
    as_json: bool,
) -> None:
    """Print the labels of each TEXT, the most probable first."""
    if bool(texts) == bool(lines):
        raise click.UsageError("Give texts, or --file FILE, and not both.")
    if pair and texts and len(texts) != 2:
        raise click.UsageError(f"--pair reads two texts together, and there are {len(texts)}.")
    inputs: Iterable[Texts] = [texts] if pair else [(text,) for text in texts]
    if lines:
        inputs = _read(lines, pair)
    with asking(target, timeout) as client:
        for place, (question, answer) in enumerate(_answers(client, inputs, top_k, truncation)):
            if as_json:
                say(json.dumps(answer_record(question, answer), ensure_ascii=False))
            elif lines:
                say(_line(question, answer))
            else:
                say(("\n" if place else "") + _block(question, answer))


def _read(lines: IO[bytes], pair: bool) -> Iterator[Texts]:
    """The texts of a file, one or two a line; refuses what is no text, by line number."""
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise click.ClickException(
                f"line {number} is not UTF-8 ({error.reason}): convert the file"
            ) from None
        texts = tuple(text.split("\t")) if pair else (text,)
        if pair and len(texts) != 2:
            raise click.ClickException(
                f"line {number} has {len(texts) - 1} tabs: --pair needs one, between two texts"
            )
        if not all(part.strip() for part in texts):
            raise click.ClickException(f"line {number} is empty: remove it")
        yield texts


def _answers(
    client: Client, inputs: Iterable[Texts], top_k: int, truncation: Truncation
) -> Iterator[tuple[Texts, Classification]]:
    asked: deque[Texts] = deque()

    def questions() -> Iterator[Text]:
        for texts in inputs:
            asked.append(texts)
            yield texts[0] if len(texts) == 1 else (texts[0], texts[1])

    found = client.classify_stream(questions(), top_k=top_k, truncation=truncation)
    for number, answer in enumerate(in_order(found), start=1):
        if isinstance(answer, RequestError):
            where = f"text {number}: " if number > 1 or len(asked) > 1 else ""
            raise click.ClickException(f"{where}{answer}")
        yield asked.popleft(), answer


def _block(texts: Texts, answer: Classification) -> str:
    """The text, a bar for each label, and who answered in what time."""
    lines = [visible(text) for text in texts]
    names = [visible(score.label) for score in answer.labels]
    width = min(max(map(cells, names)), 24)
    for name, score in zip(names, answer.labels, strict=True):
        mark = {None: "", True: "  applies", False: ""}[score.applies]
        bar = "█" * round(score.probability * BAR_WIDTH)
        lines.append(
            f"  {pad(clip(name, width), width)}  {score.probability:6.1%}  {bar}{mark}".rstrip()
        )
    lost = answer.truncated
    if lost:
        lines.append(
            f"  truncated: {lost.lost_tokens} of {lost.original_tokens} tokens were not read "
            f"({lost.lost_characters} characters)"
        )
    timings = answer.timings
    lines.append(
        f"  {answer.model} {answer.version}, {answer.backend} {answer.precision}: "
        f"{timings.total_seconds * 1e3:.1f} ms (tokenize {timings.tokenize_seconds * 1e3:.1f}, "
        f"queue {timings.queue_seconds * 1e3:.1f}, compute {timings.compute_seconds * 1e3:.1f})"
    )
    return "\n".join(lines)


def _line(texts: Texts, answer: Classification) -> str:
    """Label, or all that apply; the largest probability; the text: parted by tabs."""
    top = answer.labels[0]
    labels = [top] if top.applies is None else [score for score in answer.labels if score.applies]
    names = ",".join(visible(score.label) for score in labels)
    return "\t".join([names, f"{top.probability:.4f}", *map(visible, texts)])
