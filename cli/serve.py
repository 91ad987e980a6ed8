"""`heedful serve`: every setting is an option and an environment variable HEEDFUL_SERVE_*."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from cli.errors import plain_errors
from model.errors import BundleError, SetupError
from service.config import ServerConfig
from service.logs import log_beside

log = logging.getLogger(__name__)

DEFAULTS = ServerConfig()
LEVELS = ("debug", "info", "warning", "error")


Function = Callable[..., None]


def setting(flag: str, text: str, **options: Any) -> Callable[[Function], Function]:
    """An option whose default stands in ServerConfig."""
    name = flag.removeprefix("--").replace("-", "_")
    return click.option(
        flag,
        default=getattr(DEFAULTS, name),
        help=text,
        show_default=True,
        show_envvar=True,
        **options,
    )


@click.command(
    epilog="""\b
Examples:
  heedful serve runs/reviews-onnx
  heedful serve runs/reviews-onnx --host 0.0.0.0 --port 50051 --metrics-port 9100
  heedful serve --models models --allow-admin
  HEEDFUL_SERVE_THREADS=1 heedful serve runs/reviews-onnx

SIGTERM or Ctrl-C finishes what was accepted and exits with 0; a second one ends at once.
"""
)
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@setting("--host", "Address that both ports listen on; 0.0.0.0 is every one.")
@setting("--port", "Port of gRPC; 0 takes a free one and logs it.")
@setting("--metrics-port", "Port that Prometheus scrapes; 0 takes a free one and logs it.")
@setting("--backend", "Engine.", type=click.Choice(["onnx", "torch"]))
@setting("--device", "cpu, cuda or cuda:N.")
@setting("--allow-cpu", "Serve on the CPU where the device is not to be had.", is_flag=True)
@setting("--gpu-memory-mb", "MiB that may be taken on CUDA; 0 is all there is.")
@setting("--no-compile", "Let torch run the network on CUDA without compiling it.", is_flag=True)
@setting("--instances", "Engine runs at once; 0 takes as many as fill the CPU quota.")
@setting("--threads", "Threads of each run; 0 is one on CPUs unless --instances leaves more.")
@setting("--run-tokens", "Tokens of one engine run; 0 is 256 on CPUs and 16384 on CUDA.")
@click.option(
    "--tuned",
    type=click.Path(path_type=Path),
    help="File of `heedful tune`: sets those of the three options above that are not given.",
    show_envvar=True,
)
@setting("--max-queue-texts", "Texts that may wait for an engine.")
@setting("--max-queue-tokens", "Tokens that may wait for an engine.")
@setting("--max-queue-seconds", "Seconds of engine work that may wait, as predicted.")
@setting("--max-wait-ms", "Milliseconds an idle engine waits for company of a text.")
@setting("--max-tokenize-characters", "Characters that may wait for the tokenizer.")
@setting("--max-inputs", "Inputs of one request.")
@setting("--max-text-bytes", "Bytes of one text.")
@setting("--max-message-bytes", "Bytes of one request on the wire.")
@setting("--max-attention-bytes", "Bytes of attention in one answer.")
@setting("--max-unread-bytes", "Bytes of attention, of all callers, computed or not yet read.")
@setting("--max-stream-requests", "Unanswered requests of one stream; then reading on waits.")
@setting("--cache-mb", "MiB of answers kept to be given again to the same text; 0 keeps none.")
@setting(
    "--models", "Folder of NAME/VERSION folders, a bundle each; followed while the server runs."
)
@setting("--model", "NAME=DIR: also serve this bundle, as NAME; may be repeated.", multiple=True)
@setting("--keep-versions", "Versions of one model that stay loaded; 0 keeps all.")
@setting("--poll-seconds", "Seconds between two looks into --models; 0 looks once.")
@setting("--allow-admin", "Let callers load and unload models and move defaults.", is_flag=True)
@setting("--canary-seconds", "Seconds between runs of each known example; 0 runs none.")
@setting("--stuck-seconds", "An engine run over this makes health NOT_SERVING; 0 is never.")
@setting("--tls-cert", "PEM certificate; with --tls-key serves TLS. Read again when it changes.")
@setting("--tls-key", "Its PEM key, without a password.")
@setting("--tls-client-ca", "PEM certificates: callers must show one that these have signed.")
@setting("--tokens-file", "Bearer tokens that may call, one a line. Read again when it changes.")
@setting("--max-connections", "Connections open at once; more are closed as they come.")
@setting("--max-concurrent-streams", "Calls on one connection; more wait or get UNAVAILABLE.")
@setting("--keepalive-seconds", "Seconds of silence before a caller is asked if it is there.")
@setting("--max-connection-age", "Seconds until callers must connect anew; 0 is never.")
@setting("--max-connection-age-grace", "Seconds that calls get to finish on an aged connection.")
@setting("--max-connection-idle", "Seconds until a connection without calls closes; 0 is never.")
@setting("--channelz", "Let callers look into connections and calls.", is_flag=True)
@setting("--default-timeout", "Seconds for callers that set no deadline.")
@setting("--drain-delay", "Seconds between reporting not ready and refusing new work.")
@setting("--grace", "Seconds that accepted work gets to finish when stopping.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    help="Least serious lines to log, to stderr. Texts of users are never logged.",
    show_default=True,
    show_envvar=True,
)
def serve(bundle: Path | None, log_level: str, tuned: Path | None, **settings: Any) -> None:
    """Serves BUNDLE or several models over gRPC, with health, reflection and Prometheus metrics."""
    writer = log_beside(sys.stderr, log_level.upper())
    if not (bundle or settings["models"] or settings["model"]):
        raise click.UsageError("Give a BUNDLE, --model NAME=DIR or --models DIR.")
    with plain_errors(BundleError, SetupError):
        if tuned:
            settings |= tuned_settings(tuned, bundle)
        config = ServerConfig(**settings)
        from service.process import run

        try:
            code = run(config, bundle)
        finally:
            writer.flush()
    sys.exit(code)


def tuned_settings(path: Path, bundle: Path | None) -> dict[str, int]:
    """What the file says of options that neither a flag nor the environment has set."""
    from service.quota import usable_cpus
    from service.tuned import read_tuned, unlike

    tuned = read_tuned(path)
    for difference in unlike(tuned, usable_cpus(), bundle):
        log.warning("%s may not suit: %s; run `heedful tune` again", path, difference)
    source = click.get_current_context().get_parameter_source
    chosen = {
        name: value
        for name, value in tuned.settings.items()
        if source(name) is ParameterSource.DEFAULT
    }
    log.info("from %s: %s", path, chosen or "nothing, all of it is set by options")
    return chosen
