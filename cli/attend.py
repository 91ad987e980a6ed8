"""`heedful attend`: asks a server what a text's tokens attend to, and draws it."""

import json
import shutil
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cli.answers import answer_record, attention_record
from cli.asking import AS_JSON, TRUNCATION, asking, say, server_options
from heedful import Attention, AttentionRequest, Classification, Client
from heedful.pictures.colours import colour_depth
from heedful.pictures.focus import NOT_AN_EXPLANATION
from heedful.pictures.html import save_page
from heedful.pictures.png import grid_png, map_png
from heedful.pictures.terminal import draw_map, draw_text
from heedful.requests import Truncation
from heedful.tokens import visible

LAST = -1


def _number(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """A number from 0, None for "mean", LAST for "last"."""
    words = {"mean": None, "last": LAST} if param.name == "layer" else {"mean": None}
    if value in words:
        return words[value]
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number from 0 nor {' nor '.join(words)}.")
    return int(value)


@dataclass(frozen=True, kw_only=True)
class View:
    """What to show and where to; layer and head None mean the mean."""

    layer: int | None
    head: int | None
    query: int
    png: Path | None
    grid: bool
    html: Path | None
    font: Path | None


@click.command(
    epilog="""\b
Examples:
  heedful attend "A film that warms the heart."
  heedful attend "房间很干净，服务也好。" --layer 1 --head 2
  heedful attend "A film that warms the heart." --png map.png --html map.html
  heedful attend "A man sleeps." --pair "Somebody rests." --json

\b
Rows attend, columns are attended to; layers, heads and tokens count from 0.
Colours need a terminal, and NO_COLOR turns them off.
--json prints what `heedful classify --json` prints and attention: tokens, layers, heads,
heads_averaged, queries, weights as [layer][head][query][key].
Exit code: 0 all shown and written, 1 not, 2 wrong usage.
"""
)
@click.argument("text")
@server_options
@click.option("--pair", metavar="TEXT", help="A second text, read together with the first.")
@click.option(
    "--layer",
    callback=_number,
    metavar="N|mean|last",
    default="last",
    show_default=True,
    help="Layer.",
)
@click.option(
    "--head", callback=_number, metavar="N|mean", default="mean", show_default=True, help="Head."
)
@click.option(
    "--query",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The token whose view of the text is shown.",
)
@click.option("--png", type=click.Path(path_type=Path, dir_okay=False), help="Write the map here.")
@click.option("--grid", is_flag=True, help="Let --png show every layer and head, small.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page with every layer and head here; it needs no network.",
)
@click.option(
    "--font",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A font file for the tokens in --png.",
)
@TRUNCATION
@AS_JSON
def attend(
    text: str,
    target: str,
    timeout: float,
    pair: str | None,
    truncation: Truncation,
    as_json: bool,
    **view: Any,
) -> None:
    """Show what the tokens of TEXT attend to: in the terminal, as a picture, as a page."""
    if view["grid"] and not view["png"]:
        raise click.UsageError("--grid shapes the picture of --png FILE, which is missing.")
    texts = (text,) if pair is None else (text, pair)
    question: Any = text if pair is None else (text, pair)
    with asking(target, timeout) as client:
        shown = _resolve(View(**view), client)
        answer = client.classify(question, attention=_chosen(shown), truncation=truncation)
        attention = _attention(answer)
        if as_json:
            record = {**answer_record(texts, answer), "attention": attention_record(attention)}
            say(json.dumps(record, ensure_ascii=False))
        else:
            say(_terminal(answer, attention, shown))
        everything = attention
        if shown.html or shown.grid:
            # For pictures a byte a weight will do; the numbers above came in full.
            request = AttentionRequest(dtype="uint8")
            whole = client.classify(question, attention=request, truncation=truncation)
            everything = _attention(whole)
        _write(attention, everything, shown)


def _resolve(view: View, client: Client) -> View:
    """The view with the last layer by its number."""
    if view.layer != LAST:
        return view
    last = client.model_info().num_hidden_layers - 1
    return View(**{**vars(view), "layer": last})


def _chosen(view: View) -> AttentionRequest:
    return AttentionRequest(
        layers=() if view.layer is None else (view.layer,),
        heads=() if view.head is None else (view.head,),
        reduction="mean" if view.head is None else None,
    )


def _attention(answer: Classification) -> Attention:
    if answer.attention is None:
        raise click.ClickException("the server answered no attention: is it a heedful server?")
    return answer.attention


def _terminal(answer: Classification, attention: Attention, view: View) -> str:
    depth = colour_depth(sys.stdout)
    width = shutil.get_terminal_size().columns
    labels = ", ".join(
        f"{visible(score.label)} {score.probability:.1%}" for score in answer.labels[:5]
    )
    parts = [labels]
    if answer.truncated:
        lost = answer.truncated
        parts.append(f"Truncated: {lost.lost_tokens} of {lost.original_tokens} tokens not read.")
    # The map's axes hold one layer, and one head or the mean: its mean is the chosen map.
    parts.append(draw_text(attention, view.layer, view.head, query=view.query, depth=depth))
    parts.append(draw_map(attention, view.layer, view.head, width=width, depth=depth))
    return "\n\n".join([*parts, NOT_AN_EXPLANATION])


def _write(attention: Attention, everything: Attention, view: View) -> None:
    try:
        if view.png:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                picture = (
                    grid_png(everything, font=view.font)
                    if view.grid
                    else map_png(attention, view.layer, view.head, font=view.font)
                )
            for warning in caught:
                click.echo(f"Warning: {warning.message} (--font FILE)", err=True)
            view.png.write_bytes(picture)
            click.echo(f"Wrote {view.png}", err=True)
        if view.html:
            save_page(everything, view.html, view.layer, view.head)
            click.echo(f"Wrote {view.html}", err=True)
    except OSError as error:
        raise click.ClickException(f"cannot write the picture: {error}") from None
