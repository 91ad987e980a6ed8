"""heedful train: a data set in, a bundle out."""

import json
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cli.data_options import data_options, take_columns
from cli.errors import plain_errors

if TYPE_CHECKING:
    from model.bundle import Bundle
    from model.data.dataset import Dataset
    from model.training.run import Recipe
    from model.training.run_folder import RunOptions

EXAMPLES = """\b
Examples:
  heedful train rotten-tomatoes --output runs/reviews
  heedful train reviews.csv --text body --label stars --output runs/stars
  heedful train data/ --preset small --epochs 12 --seed 1 --output runs/small
  heedful train stanfordnlp/imdb --max-tokens 512 --output runs/imdb
  heedful train --output runs/imdb --resume
"""
# What may be said to a run that goes on: none of it changes the result.
SAYABLE_ON_RESUME = {"output", "resume", "threads", "keep_run", "tensorboard", "as_json"}
# Defaults live in model/training/config.py, which is not imported for the help: a test compares.
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@click.command(epilog=EXAMPLES)
@click.argument("data", required=False)
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), help="The bundle to write."
)
@click.option("--name", help="What callers ask for.  [default: the last part of --output]")
@click.option("--resume", is_flag=True, help="Go on with the run that --output was started with.")
@data_options
@click.option(
    "--preset", type=click.Choice(["tiny", "small", "base"]), help="Size.  [default: tiny]"
)
@click.option("--hidden-size", type=int, help="Width, instead of the preset's.")
@click.option("--num-hidden-layers", type=int, help="Layers, instead of the preset's.")
@click.option("--num-attention-heads", type=int, help="Heads a layer, instead of the preset's.")
@click.option("--intermediate-size", type=int, help="Feed-forward width, likewise.")
@click.option("--dropout", type=float, help="Share dropped.  [default: the preset's]")
@click.option(
    "--pooling", type=click.Choice(["first", "mean"]), help="What is classified.  [default: first]"
)
@click.option(
    "--tokenizer",
    type=click.Choice(["wordpiece", "bpe", "words"]),
    help="Learned from the training texts.  [default: wordpiece]",
)
@click.option("--vocab-size", type=int, help="Tokens to learn at most.  [default: 16000]")
@click.option("--max-tokens", type=int, help="Longest text in tokens.  [default: 256]")
@click.option(
    "--truncation",
    type=click.Choice(["error", "head", "tail", "head_tail"]),
    help="What to keep of longer texts.  [default: head_tail]",
)
@click.option("--epochs", type=int, help="Passes over the data at most.  [default: 10]")
@click.option("--tokens-per-batch", type=int, help="Tokens computed at once.  [default: 1024]")
@click.option("--accumulation-steps", type=int, help="Batches a step.  [default: 1]")
@click.option("--learning-rate", type=float, help="The highest.  [default: 0.0005]")
@click.option("--weight-decay", type=float, help="On matrices only.  [default: 0.01]")
@click.option("--beta2", type=float, help="Of AdamW.  [default: 0.98]")
@click.option("--warmup", type=float, help="Share of the steps.  [default: 0.1]")
@click.option(
    "--schedule", type=click.Choice(["cosine", "linear"]), help="Decay.  [default: cosine]"
)
@click.option("--clip-norm", type=float, help="Longest gradient; 0 is any.  [default: 1.0]")
@click.option("--label-smoothing", type=float, help="Share.  [default: 0.1]")
@click.option("--word-dropout", type=float, help="Share of tokens hidden.  [default: 0.3]")
@click.option("--patience", type=int, help="Epochs without gain; 0 is any.  [default: 4]")
@click.option(
    "--metric",
    type=click.Choice(["accuracy", "macro_f1"]),
    help="What makes an epoch the best.  [default: accuracy]",
)
@click.option("--seed", type=int, help="Of weights, order and dropout.  [default: 13]")
@click.option(
    "--bf16", type=click.Choice(["auto", "on", "off"]), help="auto: on a GPU.  [default: auto]"
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: cpu]")
@click.option("--checkpoint-steps", type=int, help="0: once an epoch.  [default: 500]")
@click.option(
    "--threads", type=click.IntRange(min=1), help="[default: the cores this process may use]"
)
@click.option("--keep-run", is_flag=True, help="Keep OUTPUT.run, with the last checkpoint.")
@click.option("--tensorboard", is_flag=True, help="Log curves to OUTPUT.run; implies --keep-run.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def train(ctx: click.Context, /, **given: Any) -> None:
    """Train a classifier from scratch on DATA and write it to a bundle.

    DATA is rotten-tomatoes, chinese-reviews, a file or a folder of train, validation and test in
    CSV, TSV, JSONL or Parquet (gz or not), or a Hugging Face hub id (NAME:CONFIG for one of its
    configurations). Splits that are missing are cut out of train. Ctrl-C leaves a state that
    --resume goes on with.
    """
    from model.errors import HeedfulError

    with plain_errors(HeedfulError, OSError):
        if given["resume"]:
            _refuse_options(ctx)
        try:
            _run(given)
        except KeyboardInterrupt:
            _say_how_to_go_on(given["output"])
            sys.exit(130)


def _run(given: dict[str, Any]) -> None:
    from model.training.run import check_device, use_threads
    from model.training.run_folder import remove_if_empty, reopen_run, start_run

    use_threads(given["threads"])
    output: Path = given["output"]
    if given["resume"]:
        folder, options, dataset = reopen_run(output)
        check_device(options.recipe.train.device)
    else:
        options = _options(given)
        check_device(options.recipe.train.device)
        dataset = options.load_dataset()
        folder = start_run(output, options, dataset)
    try:
        _train(folder, options, dataset, given)
    except BaseException:
        remove_if_empty(folder)
        raise


def _train(folder: Path, options: "RunOptions", dataset: "Dataset", given: dict[str, Any]) -> None:
    from model.training.interrupt import stop_request
    from model.training.progress import TensorBoardLog, progress_for, watched
    from model.training.run import baseline_of, finish, prepare, resume, train
    from model.training.run_folder import remove_run

    _say_data(dataset)
    prepared = prepare(dataset, options.recipe, folder, watched(sys.stderr))
    resume(prepared, folder)
    _say("Fitting TF-IDF with logistic regression to compare with ...")
    baseline = baseline_of(dataset, options.recipe)
    trainer = prepared.trainer
    progress = progress_for(sys.stderr, trainer.num_steps, trainer.state.step)
    listeners = [progress, *([TensorBoardLog(folder)] if given["tensorboard"] else [])]
    with stop_request() as stop:
        done = train(prepared, folder, listeners, stop)
    for listener in listeners:
        listener.close()
    if not done:
        _say_how_to_go_on(given["output"])
        sys.exit(stop.exit_code)
    bundle = finish(prepared, given["output"], options.name, baseline, options.command)
    if not (given["keep_run"] or given["tensorboard"]):
        remove_run(folder)
    _print_result(bundle, options.recipe, as_json=given["as_json"])


def _options(given: dict[str, Any]) -> "RunOptions":
    from model.training.run_folder import RunOptions

    if given["data"] is None:
        raise click.UsageError("Give the data set to train on, for example rotten-tomatoes.")
    output: Path = given["output"]
    columns = take_columns(given)
    chosen = {name: given[name] for name in ("split_seed", "limit") if given[name] is not None}
    try:
        return RunOptions(
            data=given["data"],
            name=given["name"] or output.resolve().name,
            command=shlex.join(["heedful", *sys.argv[1:]]),
            recipe=_recipe(given),
            columns=columns,
            skip_bad_rows=given["skip_bad_rows"],
            **chosen,
        )
    except ValueError as error:
        raise click.UsageError(f"{error}; --name sets another") from None


def _recipe(given: dict[str, Any]) -> "Recipe":
    from model.training.config import NetworkConfig, TextConfig, TrainConfig
    from model.training.run import Recipe

    # Options that were not given are left to the configs' defaults.
    def chosen(config: type) -> dict[str, Any]:
        return {
            item.name: given[item.name]
            for item in fields(config)
            if given.get(item.name) is not None
        }

    sizes = {name: given[name] for name in SIZES if given[name] is not None}
    try:
        return Recipe(
            text=TextConfig(**chosen(TextConfig)),
            network=NetworkConfig(**chosen(NetworkConfig), overrides=sizes),
            train=TrainConfig(**chosen(TrainConfig)),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _refuse_options(ctx: click.Context) -> None:
    given = [
        name if name == "data" else "--" + name.replace("_", "-")
        for name in ctx.params
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        and name not in SAYABLE_ON_RESUME
    ]
    if given:
        raise click.UsageError(
            "--resume goes on with the options the run was started with: leave out "
            f"{', '.join(given)}"
        )


def _say(line: str) -> None:
    click.echo(line, err=True)


def _say_data(dataset: "Dataset") -> None:
    rows = ", ".join(f"{count:,} {split}" for split, count in dataset.num_rows.items())
    _say(f"{dataset.source.name}: {rows}; {len(dataset.labels)} labels")
    for note in dataset.source.notes:
        _say(f"  {note}")


def _say_how_to_go_on(output: Path) -> None:
    from model.training.run_folder import run_folder_of

    if not run_folder_of(output).exists():
        _say("\nStopped before the first checkpoint: there is nothing to go on with.")
        return
    command = shlex.join(["heedful", "train", "--output", str(output), "--resume"])
    _say(f"\nStopped. Go on with:\n  {command}")


def _print_result(bundle: "Bundle", recipe: "Recipe", as_json: bool) -> None:
    from cli.figures import print_figures, print_summary
    from model.training.run import loses_to_baseline

    metrics = bundle.manifest.metrics
    if as_json:
        record = {
            "bundle": str(bundle.path),
            "name": bundle.manifest.name,
            "version": bundle.manifest.version,
            "metrics": metrics,
        }
        click.echo(json.dumps(record, ensure_ascii=False))
        return
    baseline = metrics["baseline"]
    for split in ("validation", "test"):
        rows = {f"{bundle.manifest.name} (Transformer)": metrics[split]}
        print_summary(split, {**rows, baseline["name"]: baseline[split]})
    click.echo()
    print_figures(metrics["test"])
    if loses_to_baseline(metrics, recipe.train.metric):
        click.echo(
            "\nWarning: the Transformer loses to TF-IDF with logistic regression on this test. "
            "More data, or a checkpoint trained on more, would help it."
        )
    click.echo(f"\nWritten: {bundle.path} (read its MODEL_CARD.md)")
    click.echo(f"Next: heedful export {shlex.quote(str(bundle.path))}")
