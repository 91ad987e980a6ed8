"""Data sets: what is read, what is refused, and that no text is in two splits."""

import csv
import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from model.data.dataset import (
    Example,
    RawSplits,
    Source,
    make_dataset,
    same_text,
    split_by_group,
)
from model.data.load import load_dataset, load_examples
from model.data.rows import Columns
from model.errors import DataError

ROWS = [
    {"text": f'text {n}\twith, "marks"\nand lines 房间', "label": "ab"[n % 2]} for n in range(20)
]


def jsonl(rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def separated(rows, separator) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def parquet_bytes(rows) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


WRITERS = {
    "csv": lambda rows: separated(rows, ","),
    "tsv": lambda rows: separated(rows, "\t"),
    "jsonl": jsonl,
    "parquet": parquet_bytes,
}


def write(path: Path, rows, content: bytes | None = None) -> Path:
    kind = path.name.split(".")[1]
    content = WRITERS[kind](rows) if content is None else content
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_rows(tmp_path, kind, zipped) -> None:
    for name in ("train", "validation", "test"):
        write(tmp_path / f"{name}.{kind}{zipped}", ROWS)
    dataset = load_dataset(tmp_path)
    for name in ("train", "validation", "test"):
        examples = dataset.split(name)
        assert [example.text for example in examples] == [row["text"] for row in ROWS]
        assert [example.labels for example in examples] == [(row["label"],) for row in ROWS]
    assert dataset.labels == ["a", "b"]
    assert dataset.problem_type == "single_label"
    assert all(len(digest) == 64 for digest in dataset.source.fingerprints.values())


def test_columns_are_named_by_option_and_pairs_are_kept(tmp_path) -> None:
    rows = [{"premise": f"p{n}", "claim": f"c{n}", "gold": n % 3} for n in range(30)]
    columns = Columns(text="premise", text_pair="claim", label="gold")
    dataset = load_dataset(write(tmp_path / "pairs.jsonl", rows), columns)
    assert dataset.labels == ["0", "1", "2"]
    pairs = {(example.text, example.text_pair) for example in dataset.train}
    assert pairs <= {(f"p{n}", f"c{n}") for n in range(30)}


def test_label_numbers_are_sorted_as_numbers(tmp_path) -> None:
    rows = [{"text": f"t{n}", "label": n % 12} for n in range(120)]
    assert load_dataset(write(tmp_path / "x.csv", rows)).labels == [str(n) for n in range(12)]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_lists_of_labels_make_a_multi_label_set(tmp_path, kind) -> None:
    lists = [["a"], ["a", "b"], [], ["c"]]
    rows = [{"text": f"t{n}", "labels": lists[n % 4]} for n in range(40)]
    if kind == "csv":
        rows = [{**row, "labels": ",".join(row["labels"])} for row in rows]
    dataset = load_dataset(write(tmp_path / f"x.{kind}", rows))
    assert dataset.problem_type == "multi_label"
    assert dataset.labels == ["a", "b", "c"]
    assert Counter(example.labels for example in dataset.train) == {
        ("a",): 8, ("a", "b"): 8, (): 8, ("c",): 8,
    }  # fmt: skip


def test_one_file_is_split_by_a_seed_and_repeated_texts_stay_together(tmp_path) -> None:
    rows = [{"text": f"text {n % 50}", "label": "ab"[n % 2]} for n in range(200)]
    path = write(tmp_path / "all.jsonl", rows)
    first, again = load_dataset(path), load_dataset(path)
    other = load_dataset(path, split_seed=1)
    assert first == again
    assert first.test != other.test
    texts = [{example.text for example in first.split(name)} for name in first.num_rows]
    assert sum(map(len, texts)) == 50 == len(set.union(*texts))
    assert first.num_rows == {"train": 160, "validation": 20, "test": 20}
    assert "cut out of train" in first.source.notes[0]


def test_only_the_missing_split_is_cut(tmp_path) -> None:
    write(tmp_path / "train.jsonl", ROWS)
    write(tmp_path / "test.csv", ROWS[:4])
    dataset = load_dataset(tmp_path)
    assert len(dataset.test) == 4
    assert len(dataset.train) + len(dataset.validation) == 20


def test_groups_are_dealt_whole_and_labels_evenly() -> None:
    examples = [Example(f"t{n}", None, ("ab"[n % 2],), n) for n in range(400)]
    shares = [*["train"] * 3, "test"]
    splits = split_by_group(examples, lambda example: example.row // 4, shares)
    rows = {name: {example.row // 4 for example in part} for name, part in splits.items()}
    assert not rows["train"] & rows["test"]
    assert len(splits["test"]) == 100
    assert Counter(example.labels for example in splits["test"]) == {("a",): 50, ("b",): 50}


def test_white_space_does_not_make_a_text_new() -> None:
    assert same_text(Example(" a  b\n", None, (), 1)) == same_text(Example("a b", None, (), 2))


def refusal(path, *args, **options) -> str:
    with pytest.raises(DataError) as caught:
        load_dataset(path, *args, **options)
    return str(caught.value)


def test_a_missing_column_is_refused_with_the_columns_there_are(tmp_path) -> None:
    path = write(tmp_path / "x.csv", [{"body": "t", "stars": "5"}] * 2)
    message = refusal(path)
    assert "no column 'text'" in message
    assert "'body', 'stars'" in message
    assert "'label'" in refusal(path, Columns(text="body"))
    assert "'other'" in refusal(path, Columns(text="body", label="stars", text_pair="other"))


def test_label_and_labels_together_must_be_chosen_from(tmp_path) -> None:
    path = write(tmp_path / "x.jsonl", [{"text": "t", "label": "a", "labels": ["a"]}])
    assert "both" in refusal(path)
    with pytest.raises(DataError, match="not both"):
        Columns(label="a", labels="b")


BAD_ROWS = {
    "empty": {"text": "  ", "label": "a"},
    "missing": {"label": "a"},
    "int, not text": {"text": 5, "label": "a"},
    "label is missing": {"text": "t", "label": None},
    "no label": {"text": "t", "label": ["a"]},
    "surrogate": {"text": "t\ud800", "label": "a"},
}


@pytest.mark.parametrize("complaint", BAD_ROWS)
def test_bad_rows_are_refused_by_number_or_skipped_and_counted(tmp_path, complaint) -> None:
    bad = json.dumps(BAD_ROWS[complaint]).encode() + b"\n"
    path = write(tmp_path / "x.jsonl", None, jsonl(ROWS) + b"\n" + bad)
    message = refusal(path)
    assert "row 22" in message
    assert complaint in message
    dataset = load_dataset(path, skip_bad_rows=True)
    assert sum(dataset.num_rows.values()) == 20
    assert "1 bad rows of x.jsonl left out" in dataset.source.notes


def test_many_bad_rows_are_counted_not_listed(tmp_path) -> None:
    path = write(tmp_path / "x.jsonl", [{"text": "", "label": "a"}] * 100)
    message = refusal(path)
    assert "100 bad rows" in message
    assert "and 95 more" in message


BAD_FILES = {
    "x.csv": (b"", "no rows"),
    "y.csv": (b"text,label\n", "no rows"),
    "columns.csv": (b"text,label\na,b\nc,d,e\n", "line 3: 3 columns where the first line has 2"),
    "quote.csv": (b'text,label\n"a" b,c\n', "line 2"),
    "open.csv": (b'text,label\n"a b,c\nd,e\n', "line 3"),
    "bytes.csv": (b"text,label\na,b\nn\xe9,b\n", "line 3: byte 0xe9 is not UTF-8"),
    "x.jsonl": (b'{"text": 1}\n{oops\n', "line 2: not JSON"),
    "list.jsonl": (b"[1]\n", "line 1: not an object"),
    "x.parquet": (b"PAR1 no", "not a Parquet file"),
    "x.txt": (b"a", "ends in none of .csv"),
    "x": (b"a", "ends in none of .csv"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_what_is_wrong_where(tmp_path, name) -> None:
    content, complaint = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    assert complaint in refusal(tmp_path / name)


def test_a_cut_gzip_file_is_refused(tmp_path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"text,label\na,b\n" * 99)[:-9])
    assert "not a whole gzip file" in refusal(tmp_path / "x.csv.gz")
    (tmp_path / "y.csv.gz").write_bytes(b"text,label\na,b\n")
    assert "not a whole gzip file" in refusal(tmp_path / "y.csv.gz")


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path) -> None:
    content = b"\xef\xbb\xbf" + separated(ROWS, ",")
    assert load_dataset(write(tmp_path / "x.csv", None, content)).labels == ["a", "b"]


def test_lines_are_cut_at_line_feeds_only(tmp_path) -> None:
    rows = [{"text": f"one\u2028two\x85three {n}", "label": "ab"[n % 2]} for n in range(20)]
    dataset = load_dataset(write(tmp_path / "x.jsonl", rows))
    assert all("\u2028" in example.text for example in dataset.train)


def test_a_text_longer_than_the_csv_limit_is_read(tmp_path) -> None:
    rows = [{"text": f"{n} " + "x" * 200_000, "label": "ab"[n % 2]} for n in range(20)]
    assert load_dataset(write(tmp_path / "x.csv", rows)).num_rows["train"] == 16


def test_one_label_and_labels_unknown_to_train_are_refused(tmp_path) -> None:
    one = [{"text": f"t{n}", "label": "a"} for n in range(20)]
    assert "only the label 'a'" in refusal(write(tmp_path / "one.csv", one))
    for name, rows in (
        ("train", ROWS),
        ("validation", ROWS),
        ("test", [{"text": "t", "label": "z"}]),
    ):
        write(tmp_path / f"{name}.csv", rows)
    message = refusal(tmp_path)
    assert "the split test" in message
    assert "z" in message


def test_too_few_texts_to_split_and_a_folder_without_train_are_refused(tmp_path) -> None:
    assert "9 different texts" in refusal(write(tmp_path / "few.csv", ROWS[:9]))
    (tmp_path / "folder").mkdir()
    assert "no train file" in refusal(tmp_path / "folder")
    write(tmp_path / "folder" / "train.csv", ROWS)
    write(tmp_path / "folder" / "train.jsonl", ROWS)
    assert "several files for train" in refusal(tmp_path / "folder")


def test_what_does_not_exist_is_refused_with_the_named_sets(tmp_path) -> None:
    message = refusal(tmp_path / "nothing.csv")
    assert "does not exist" in message
    assert "rotten-tomatoes" in message


def test_a_limit_draws_texts_and_says_so(tmp_path) -> None:
    dataset = load_dataset(write(tmp_path / "x.csv", ROWS), limit=4)
    assert dataset.num_rows == {"train": 4, "validation": 2, "test": 2}
    assert "only 4 texts" in dataset.source.notes[-1]
    assert "at least 1" in refusal(tmp_path / "x.csv", limit=0)


def test_evaluation_takes_every_row_or_the_split_that_training_held_out(tmp_path) -> None:
    path = write(tmp_path / "x.csv", ROWS)
    everything, _ = load_examples(path, "all")
    held_out, raw = load_examples(path, "test")
    assert len(everything) == 20
    assert held_out == load_dataset(path).test
    assert raw.source.notes


def test_a_split_without_rows_is_refused() -> None:
    rows = [Example(f"t{n}", None, ("ab"[n % 2],), n) for n in range(20)]
    splits = {"train": rows, "validation": [], "test": rows}
    with pytest.raises(DataError, match="the split validation of x has no rows"):
        make_dataset(RawSplits(splits, Source(name="x", fingerprints={})))
