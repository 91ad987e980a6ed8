"""`heedful tune`: which settings of the engines are fastest here, measured."""

from pathlib import Path

import click

from cli.errors import plain_errors
from model.errors import BundleError, SetupError

NUM_TEXTS = 1000
MIXES = ("mixed", "short", "middle", "long")


@click.command(
    epilog="""\b
Examples:
  heedful tune runs/reviews-onnx
  heedful tune runs/reviews-onnx --lengths lengths.txt --output tuned.json
  heedful serve runs/reviews-onnx --tuned tuned.json

Measure on the machine and within the quota that will serve, with nothing else running.
"""
)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--lengths",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Tokens of recorded texts, one number a line; instead of --mix.",
)
@click.option(
    "--mix",
    type=click.Choice(MIXES),
    default="mixed",
    show_default=True,
    help="Made-up texts: median 24, 51 or 234 tokens, or 60, 25 and 15 % of these.",
)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.01, max=60),
    help="Of one measurement; there is one for each setting in each round.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="tuned.json",
    show_default=True,
    help="Where to write what won.",
)
def tune(  # one parameter an option
    bundle: Path, lengths: Path | None, mix: str, rounds: int, seconds: float, output: Path
) -> None:
    """Try the sensible settings of BUNDLE's engines and write down the fastest."""
    from cli.figures import print_table
    from model.bundle import load_bundle
    from service.quota import usable_cpus
    from service.tuned import Tuned, write_tuned
    from service.tuning import candidates, made_up_lengths, measure, winner

    with plain_errors(BundleError, SetupError):
        loaded, cpus = load_bundle(bundle), usable_cpus()
        longest = loaded.manifest.max_tokens
        tokens = read_lengths(lengths, longest) if lengths else None
        source = f"of {lengths.name}" if lengths else f"made up: {mix}"
        tokens = tokens or made_up_lengths(mix, NUM_TEXTS, longest)
        settings = candidates(cpus)
        click.echo(
            f"{cpus} processors, texts {source}, mean {sum(tokens) / len(tokens):.0f} tokens; "
            f"about {1.3 * rounds * seconds * len(settings):.0f} seconds"
        )
        found = list(measure(loaded, settings, tokens, rounds, seconds))[-1]
        best = winner(found)
        rows = [["", "instances", "threads", "run tokens", "texts/s", "from", "to", "p50 ms"]]
        for row in found:
            setting, rates = row.setting, row.texts_per_second
            figures = (row.speed, min(rates), max(rates), 1e3 * row.latency)
            shape = (setting.instances, setting.threads, setting.run_tokens)
            mark = "*" if row is best else ""
            rows.append([mark, *map(str, shape), *(f"{figure:,.0f}" for figure in figures)])
        print_table(rows)
        chosen, manifest = best.setting, loaded.manifest
        write_tuned(
            output,
            Tuned(
                cpus=cpus,
                model=manifest.name,
                version=manifest.version,
                precision=getattr(manifest, "precision", "float32"),
                lengths=source,
                texts_per_second=round(best.speed, 1),
                settings={
                    "instances": chosen.instances,
                    "threads": chosen.threads,
                    "run_tokens": chosen.run_tokens,
                },
            ),
        )
    click.echo(f"The row marked * is in {output}: heedful serve {bundle} --tuned {output}")


def read_lengths(path: Path, longest: int) -> list[int]:
    """Numbers of tokens, one a line; those over longest count as it.

    Raises:
        SetupError: a line is no positive number, or there is none.
    """
    lengths: list[int] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        if not line.strip().isdecimal() or int(line) < 1:
            raise SetupError(f"{path}, line {number}: a number of tokens is expected there")
        lengths.append(min(int(line), longest))
    if not lengths:
        raise SetupError(f"{path} holds no lengths: write one number of tokens a line")
    return lengths
