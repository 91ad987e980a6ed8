"""The page in a real browser: controls move the map, tokens stay inert, nothing is fetched."""

import html
import json
import re
import subprocess
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful import Attention
from heedful.pictures.html import language, page, save_page

DRIVER = Path(__file__).with_name("driver.html")
HOSTILE = [
    "</script><script>parent.pwned=1</script>",
    "<img src=/stolen onerror=parent.pwned=2>",
    "<!--<script>",
    "]]>",
    "{data}",
    "שלום",
    "👩\u200d👧",
    "\u202egnp.exe",
    "房间",
]


@dataclass
class Seen:
    """What the browser reported, what it complained about, and what it asked the server for."""

    report: dict[str, Any]
    complaints: str
    requests: list[str]


def browse(chromium: str, folder: Path, content: str) -> Seen:
    """Opens a page in a browser and lets the driver use it."""
    requests: list[str] = []
    pages = {"/": DRIVER.read_text(encoding="utf-8"), "/page.html": content}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *args) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        done = subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                f"--user-data-dir={folder}",
                "--enable-logging=stderr",
                "--virtual-time-budget=20000",
                "--dump-dom",
                f"http://127.0.0.1:{server.server_port}/",
            ],
            capture_output=True,
            timeout=120,
            check=True,
        )
        server.shutdown()
    dom = done.stdout.decode()
    found = re.search(r'<pre id="report">(.*?)</pre>', dom, re.DOTALL)
    lines = done.stderr.decode(errors="replace").splitlines()
    complaints = "\n".join(line for line in lines if "CONSOLE" in line)
    assert found, complaints
    assert found[1], complaints
    return Seen(json.loads(html.unescape(found[1])), complaints, requests)


@pytest.fixture(scope="module")
def attention(make_attention) -> Attention:
    return make_attention(HOSTILE, layers=3, heads=2)


@pytest.fixture(scope="module")
def seen(chromium, tmp_path_factory, attention) -> Seen:
    return browse(chromium, tmp_path_factory.mktemp("browser"), page(attention, 0))


def test_no_token_runs_or_becomes_an_element(seen) -> None:
    assert seen.report["pwned"] is None
    assert seen.report["scripts"] == 2
    assert seen.report["images"] == 0
    shown = " ".join(HOSTILE).replace("\u202e", "\ufffd")
    assert seen.report["text"] == shown


def test_nothing_is_fetched_and_the_browser_has_no_complaint(seen) -> None:
    assert sorted(seen.requests) == ["/", "/page.html"]
    assert seen.report["resources"] == 0
    assert seen.complaints == ""


def assert_table(shown: list[list[str]], attention: Attention, row: np.ndarray) -> None:
    """The page's table against numpy: a byte a weight is off by 1/510 of a row's largest."""
    expected = np.sort(row)[::-1][: len(shown)]
    assert np.allclose([float(weight) for _, weight in shown], expected, atol=0.003)
    assert shown[0][0] == attention.tokens[int(row.argmax())].name


def test_sliders_and_means_show_the_map_that_numpy_shows(seen, attention) -> None:
    report = seen.report
    assert (report["opened"]["layer"], report["opened"]["head"]) == ("0", "mean of 2")
    assert_table(report["opened"]["top"], attention, attention.map(0)[0])
    assert (report["layer_1"]["layer"], report["layer_1"]["head"]) == ("1", "mean of 2")
    assert_table(report["layer_1"]["top"], attention, attention.map(1)[0])
    assert (report["head_1"]["layer"], report["head_1"]["head"]) == ("1", "1")
    assert_table(report["head_1"]["top"], attention, attention.map(1, 1)[0])
    assert report["all_means"]["layer"] == "mean of 3"
    assert_table(report["all_means"]["top"], attention, attention.mean()[0])
    steps = ["opened", "layer_1", "head_1", "all_means", "without_special"]
    assert len({report[step]["map"] for step in steps}) == len(steps)
    assert len({str(report[step]["shades"]) for step in steps[:4]}) == 4


def test_hiding_special_tokens_tells_how_much_was_hidden(seen, attention) -> None:
    row = attention.mean()[0]
    hidden = row[0] + row[-1]
    shown = re.search(r"Hidden: ([\d.]+) % of what \[CLS\]", seen.report["without_special"]["mass"])
    assert float(shown[1]) == pytest.approx(100 * hidden, abs=0.3)
    content = row[1:-1] / row[1:-1].sum()
    top = seen.report["without_special"]["top"]
    assert float(top[0][1]) == pytest.approx(content.max(), abs=0.005)
    assert not {"[CLS]", "[SEP]"} & {name for name, _ in top}


def test_keys_move_the_cell_turn_layer_and_head_and_pick_the_row(seen, attention) -> None:
    # The first arrow shows the cell, the next two move it; ] and . leave the means for 0 and 0.
    cell = seen.report["keys"]["cell"]
    assert cell.startswith(f"layer 0, head 0: {attention.tokens[1].name} attends to ")
    shown = re.search(r"attends to (.*?)(?: \(.*\))?: ([\d.]+), rank", cell)
    assert shown[1] == attention.tokens[1].name
    assert float(shown[2]) == pytest.approx(attention.map(0, 0)[1, 1], abs=0.002)
    assert seen.report["focused"] == "map"
    assert_table(seen.report["picked"]["top"], attention, attention.map(0, 0)[1])


def test_pointing_reads_out_the_cell_under_the_pointer(seen) -> None:
    assert "[SEP] attends to [SEP]" in seen.report["pointed"]["cell"]


def test_colours_can_span_each_row(seen) -> None:
    assert seen.report["row_scale"]["map"] != seen.report["picked"]["map"]


def test_512_tokens_open_with_few_elements(chromium, tmp_path, make_attention) -> None:
    attention = make_attention([f"w{place}" for place in range(510)], layers=2, heads=2)
    seen = browse(chromium, tmp_path, page(attention, 1))
    assert seen.report["nodes"] < 3000
    assert seen.report["pointed"]["cell"].startswith("layer 0, head 0: [SEP] attends to [SEP]")
    assert seen.complaints == ""


def test_the_page_allows_itself_nothing_but_its_own_script_and_style(attention) -> None:
    text = page(attention)
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'; ' in text
    assert "unsafe" not in text
    assert not re.search(r"https?://", text)


def test_the_file_is_utf_8_whatever_the_locale(attention, tmp_path) -> None:
    save_page(attention, tmp_path / "a.html", layer=1, head=0)
    text = (tmp_path / "a.html").read_bytes().decode("utf-8")
    assert "房间" in text
    assert '<meta charset="utf-8">' in text


def test_a_layer_that_is_not_there_is_refused(attention) -> None:
    with pytest.raises(ValueError, match="layer 7"):
        page(attention, layer=7)


@pytest.mark.parametrize(
    ("text", "name"), [("房间很干净", "zh"), ("部屋はきれい", "ja"), ("방", "ko"), ("room", "")]
)
def test_a_text_is_marked_with_the_language_its_script_gives_away(text, name) -> None:
    assert language(text) == name
