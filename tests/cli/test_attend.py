"""`heedful attend` against a real server."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cli.main import main

TEXT = "房间很干净，服务也好。"
COMMAND = Path(sys.executable).with_name("heedful")


@pytest.fixture
def attend(server):
    """Runs the command as a shell would and gives its result."""

    def run(*words: str) -> Result:
        words = ("attend", "--target", server.address, *words)
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return run


def test_the_text_and_the_map_of_the_last_layer_are_printed(attend) -> None:
    done = attend(TEXT)
    assert done.exit_code == 0
    assert "What [CLS] attends to (layer 1, mean of 5 heads)" in done.stdout
    assert "rows attend, columns are attended to" in done.stdout
    assert "not why it answered" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["--layer", "0", "--head", "3"], "layer 0, head 3"),
        (["--layer", "mean"], "mean of 2 layers, mean of 5 heads"),
        (["--query", "2"], "What 间 attends to"),
    ],
)
def test_layer_head_and_token_are_chosen_by_number(attend, words, title) -> None:
    assert title in attend(TEXT, *words).stdout


def test_json_holds_the_answer_and_the_chosen_weights(attend) -> None:
    record = json.loads(attend(TEXT, "--json", "--layer", "0", "--head", "3").stdout)
    attention = record["attention"]
    assert set(attention) == {
        "tokens",
        "layers",
        "heads",
        "heads_averaged",
        "queries",
        "weights",
    }
    weights = np.array(attention["weights"])
    size = len(attention["tokens"])
    assert weights.shape == (1, 1, size, size)
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    assert (attention["layers"], attention["heads"], attention["heads_averaged"]) == (
        [0],
        [3],
        False,
    )
    assert record["text"] == TEXT
    assert "".join(token["text"] for token in attention["tokens"]) == TEXT


def test_files_are_written_and_named(attend, chinese_font, tmp_path) -> None:
    png, grid, page = tmp_path / "a.png", tmp_path / "grid.png", tmp_path / "a.html"
    done = attend(TEXT, "--png", str(png), "--html", str(page), "--font", str(chinese_font))
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [f"Wrote {png}", f"Wrote {page}"]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert '"shape":[2,5,13,13]' in page.read_text(encoding="utf-8")
    attend(TEXT, "--png", str(grid), "--grid", "--font", str(chinese_font))
    assert grid.read_bytes().startswith(b"\x89PNG")
    assert len(grid.read_bytes()) != len(png.read_bytes())


def test_a_glyph_that_no_font_has_is_told(attend, tmp_path) -> None:
    done = attend("𓀀 fine", "--png", str(tmp_path / "a.png"))
    assert done.exit_code == 0
    assert "Warning: no font has the glyphs of 1 of" in done.stderr
    assert "--font FILE" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--layer", "2"], 1, "layer 2"),
        (["--head", "9"], 1, "head 9"),
        (["--query", "99"], 1, "token 99"),
        (["--layer", "first"], 2, "neither a number from 0 nor mean nor last"),
        (["--head", "last"], 2, "neither a number from 0 nor mean"),
        (["--grid"], 2, "--png"),
        (["--font", "nowhere.ttf"], 2, "nowhere.ttf"),
        (["--png", "nowhere/a.png"], 1, "cannot write the picture"),
    ],
)
def test_what_cannot_be_shown_ends_with_one_line_that_says_why(attend, words, code, says) -> None:
    done = attend(TEXT, *words)
    assert done.exit_code == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_unless_its_reader_wants_none(server, more, coloured) -> None:
    leader, follower = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM"}}
    environment |= {"TERM": "xterm-256color", **more}
    words = [COMMAND, "attend", "--target", server.address, "A film."]
    with subprocess.Popen(words, stdout=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 65536):
                shown += part
        except OSError:  # how Linux says that the terminal's other end is closed
            pass
    os.close(leader)
    assert process.returncode == 0
    assert (b"\x1b[48;5;" in shown) == coloured
