"""`heedful classify` against a real server."""

import json

import pytest
from click.testing import CliRunner, Result

from cli.main import main

TEXT = "A film that warms the heart, slowly and for good."


@pytest.fixture
def classify(server):
    """Runs the command as a shell would and gives its result."""

    def run(*words: str, stdin: bytes | None = None) -> Result:
        words = ("classify", "--target", server.address, *words)
        return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)

    return run


def test_labels_are_printed_with_bars_and_timings(classify) -> None:
    done = classify(TEXT)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == TEXT
    assert {line.split()[0] for line in lines[1:4]} == {"bad", "fair", "good"}
    assert "█" in lines[1]
    assert "compute" in lines[4]


def test_json_is_one_object_a_text_with_names_that_stay(classify) -> None:
    done = classify("--json", "--top-k", "2", TEXT, "房间很干净")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["text"] for record in records] == [TEXT, "房间很干净"]
    assert set(records[0]) == {
        "text",
        "labels",
        "truncated",
        "model",
        "version",
        "backend",
        "precision",
        "cached",
        "timings",
    }
    assert set(records[0]["labels"][0]) == {"label", "index", "probability", "logit", "applies"}
    assert len(records[0]["labels"]) == 2
    assert "房间" in done.stdout


def test_a_file_gives_a_line_for_each_of_its_lines(classify, tmp_path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffA film.\r\n房间很干净\n".encode() + b"x\n" * 70)
    done = classify("--file", str(path))
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[2] for line in lines] == ["A film.", "房间很干净", *["x"] * 70]
    assert all(0 < float(line[1]) <= 1 for line in lines)


def test_standard_input_is_read_as_pairs(classify) -> None:
    done = classify("--file", "-", "--pair", "--json", stdin="a film\t房间\n".encode())
    record = json.loads(done.stdout)
    assert (record["text"], record["text_pair"]) == ("a film", "房间")


def test_a_pair_on_the_command_line_is_one_input(classify) -> None:
    assert json.loads(classify("--pair", "--json", "a", "b").stdout)["text_pair"] == "b"


@pytest.mark.parametrize(
    ("words", "stdin", "code", "says"),
    [
        ([], None, 2, "Give texts, or --file FILE"),
        (["--file", "-", "a"], b"", 2, "and not both"),
        (["--pair", "a"], None, 2, "reads two texts together, and there are 1"),
        (["--top-k", "-1", "a"], None, 2, "--top-k"),
        (["--timeout", "0", "a"], None, 2, "--timeout"),
        ([""], None, 1, "empty"),
        (["a\udce9"], None, 1, "lone surrogate U+DCE9"),
        (["long " * 60], None, 1, "41"),
        (["--file", "-"], b"a\n" + b"long " * 60 + b"\n", 1, "text 2: "),
        (["--file", "-"], b"a\n\nb\n", 1, "line 2 is empty"),
        (["--file", "-"], b"a\nb\xff\n", 1, "line 2 is not UTF-8"),
        (["--file", "-", "--pair"], b"a\tb\na\n", 1, "line 2 has 0 tabs"),
    ],
)
def test_what_cannot_be_asked_ends_with_one_line_that_says_why(
    classify, words, stdin, code, says
) -> None:
    done = classify(*words, stdin=stdin)
    assert done.exit_code == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_truncation_is_told(classify) -> None:
    done = classify("--truncation", "head", "long " * 60)
    assert "tokens were not read" in done.stdout


def test_a_text_cannot_steer_the_terminal(classify) -> None:
    assert "\x1b" not in classify("a\x1b[2Jb").stdout


def test_without_a_server_it_says_how_to_start_one() -> None:
    done = CliRunner().invoke(main, ["classify", "--target", "localhost:1", "a"])
    assert done.exit_code == 1
    assert "no server answers at localhost:1" in done.stderr
    assert "heedful serve BUNDLE" in done.stderr


def test_the_target_can_stand_in_the_environment(server) -> None:
    environment = {"HEEDFUL_TARGET": server.address}
    done = CliRunner().invoke(main, ["classify", "--json", "a"], env=environment)
    assert json.loads(done.stdout)["model"] == "tiny"
