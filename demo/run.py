"""The whole line with the commands a user types: train, export, serve, ask, see, stop.

Run: make demo
"""

import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEEDFUL = Path(sys.executable).with_name("heedful")
OUTPUT = Path("runs/demo")
TRAINED, BUNDLE = OUTPUT / "reviews", OUTPUT / "reviews-onnx"
PICTURE, PAGE, SERVER_LOG = OUTPUT / "attention.png", OUTPUT / "attention.html", "server.log"
TEXTS = (
    "A warm, funny and quietly moving film, with two wonderful actors.",
    "Two hours of noise: dull, predictable and far too long.",
)
SHOWN_METRICS = (
    "heedful_requests_total",
    "heedful_request_seconds_count",
    "heedful_request_seconds_sum",
    "heedful_tokens_total",
    "heedful_model_info",
)


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def run(*arguments: object) -> None:
    """Shows a heedful command and runs it; ends the demo if it fails."""
    words = [str(argument) for argument in arguments]
    print(f"$ heedful {shlex.join(words)}", flush=True)
    code = subprocess.run([HEEDFUL, *words], cwd=ROOT, check=False).returncode  # noqa: S603
    if code:
        sys.exit(f"heedful {words[0]} ended with exit code {code}; its message stands above.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_server(port: int, metrics_port: int) -> subprocess.Popen[bytes]:
    words = ["serve", str(BUNDLE), "--port", str(port), "--metrics-port", str(metrics_port)]
    print(f"$ heedful {shlex.join(words)} &", flush=True)
    with (ROOT / OUTPUT / SERVER_LOG).open("wb") as log:
        return subprocess.Popen([HEEDFUL, *words], cwd=ROOT, stdout=log, stderr=log)  # noqa: S603


def show_metrics(port: int) -> None:
    url = f"http://127.0.0.1:{port}/metrics"
    print(f"$ curl {url}", flush=True)
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    shown = [line for line in lines if line.startswith(SHOWN_METRICS)]
    print("\n".join(shown[:12]))
    print(f"... and {len(lines) - len(shown[:12])} lines more")


def ask(target: str, metrics_port: int) -> None:
    run("info", "--target", target, "--ready")
    say("Asking it over gRPC")
    run("classify", "--target", target, *TEXTS)
    say("What it attends to")
    run("attend", "--target", target, TEXTS[0], "--png", PICTURE, "--html", PAGE)
    say("A few of the metrics that Prometheus scrapes")
    show_metrics(metrics_port)


def main() -> None:
    start = time.monotonic()
    shutil.rmtree(ROOT / OUTPUT, ignore_errors=True)
    (ROOT / OUTPUT).mkdir(parents=True)
    say("Training a small encoder on film reviews")
    run("train", "rotten-tomatoes", "--preset", "tiny", "--output", TRAINED)
    say("Exporting it to ONNX and comparing with PyTorch")
    run("export", TRAINED, "--output", BUNDLE)
    say("Starting the server")
    port, metrics_port = free_port(), free_port()
    server = start_server(port, metrics_port)
    try:
        ask(f"127.0.0.1:{port}", metrics_port)
        say("Stopping the server")
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=60)
        print(f"The server finished what it had accepted and ended with exit code {code}.")
    finally:
        server.kill()
    say(f"Done in {time.monotonic() - start:.0f} seconds")
    print(f"""
  model for PyTorch   {TRAINED}
  model for serving   {BUNDLE}
  its model card      {BUNDLE / "MODEL_CARD.md"}
  attention picture   {PICTURE}
  attention page      {PAGE}      (open it in a browser)
  server's log        {OUTPUT / SERVER_LOG}

What to type next:

  . .venv/bin/activate
  heedful serve {BUNDLE} &
  heedful classify "your own sentence"
  heedful attend "your own sentence" --layer 1 --head 2
  heedful train your.csv --output runs/yours""")
    sys.exit(code)


if __name__ == "__main__":
    main()
