"""The commands and the code of README.md work, in the order they stand there."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.serve import serve
from service.metrics import Metrics

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HEEDFUL = str(Path(sys.executable).with_name("heedful"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands(word: str) -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith(f"$ {word} ")]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def newcomer(tmp_path):
    """A folder with a small reviews.csv, and settings that make training short."""
    good, bad = ["warm", "funny", "bright", "kind"], ["dull", "noisy", "flat", "cold"]
    rows = [
        f"a {word} film {number},{label}"
        for label, words in (("good", good), ("bad", bad))
        for word in words
        for number in range(12)
    ]
    (tmp_path / "reviews.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    port = free_port()
    return tmp_path, {
        **os.environ,
        "HEEDFUL_TRAIN_PRESET": "tiny",
        "HEEDFUL_TRAIN_EPOCHS": "1",
        "HEEDFUL_SERVE_PORT": port,
        "HEEDFUL_SERVE_METRICS_PORT": free_port(),
        "HEEDFUL_INFO_TARGET": f"localhost:{port}",
        "HEEDFUL_CLASSIFY_TARGET": f"localhost:{port}",
        "HEEDFUL_ATTEND_TARGET": f"localhost:{port}",
    }


def test_readme_commands_and_client_work(newcomer) -> None:
    folder, environment = newcomer

    def run(*words: str) -> str:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    server = None
    try:
        for _, *words in commands("heedful"):
            if words[0] == "serve":
                assert words[-1] == "&"
                server = subprocess.Popen([HEEDFUL, *words[:-1]], cwd=folder, env=environment)
                run(HEEDFUL, "info", "--ready")
            else:
                run(HEEDFUL, *words)
        assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")
        assert "<html" in (folder / "map.html").read_text(encoding="utf-8")
        (code,) = blocks("python")
        assert len(code.strip().splitlines()) <= 6
        code = code.replace("localhost:50051", environment["HEEDFUL_CLASSIFY_TARGET"])
        printed = run(sys.executable, "-c", code)
        assert re.fullmatch(r"(good|bad) 0\.\d+ \(2, 4, (\d+), \2\)\n", printed)
        assert server is not None
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
    finally:
        if server is not None:
            server.kill()
            server.wait()


def test_operations_explains_every_option_and_metric_of_the_server() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    options = {name for option in serve.params for name in option.opts if name.startswith("--")}
    assert options - {"--help"} <= set(re.findall(r"`(--[a-z-]+)`", page))
    assert set(re.findall(r"`(--[a-z-]+)`", page)) <= options
    described = set(re.findall(r"`(heedful_[a-z_]+)`", page))
    families = {family.name for family in Metrics().registry.collect()}
    ours = {name for name in families if name.startswith("heedful_")}
    assert ours <= {name.removesuffix("_total") for name in described}


def test_make_targets_named_in_the_docs_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = [README, *(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/**/*.md"))]
    named = {target for page in pages for target in re.findall(r"[`$] ?make (\w+)", page)}
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not link.startswith("https://"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
