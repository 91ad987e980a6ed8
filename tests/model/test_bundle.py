"""The bundle: checked before anything loads, never changed, never seen half-written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.bundle import (
    MANIFEST,
    WEIGHTS,
    Bundle,
    Golden,
    Manifest,
    load_bundle,
    new_bundle,
    weights_version,
)
from model.encoder import EncoderClassifier
from model.errors import BundleError
from model.packing import pack
from model.tokenizer import train_tokenizer
from model.weights import as_tensors, load_encoder, write_bundle


@pytest.fixture
def copy(tiny_bundle: Bundle, tmp_path: Path) -> Path:
    """A copy of the tiny bundle that may be spoiled."""
    return Path(shutil.copytree(tiny_bundle.path, tmp_path / "copy"))


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads((path / MANIFEST).read_text())
    edit(record)
    (path / MANIFEST).write_text(json.dumps(record))


def test_a_bundle_reads_back_as_it_was_written(tiny_bundle, tiny_encoder, copy) -> None:
    read = load_bundle(copy)
    assert read.manifest == tiny_bundle.manifest
    assert read.config == tiny_encoder.config
    network = load_encoder(read)
    for name, value in tiny_encoder.state_dict().items():
        assert torch.equal(network.state_dict()[name], value)
    assert read.text_encoder().encode("房间很干净").input_ids
    assert read.manifest.version == weights_version(copy / WEIGHTS)


def test_the_golden_example_is_what_the_network_answers(tiny_bundle) -> None:
    golden = tiny_bundle.manifest.golden
    with torch.inference_mode():
        logits, _ = load_encoder(tiny_bundle)(*as_tensors(pack([golden.input_ids])))
    np.testing.assert_allclose(logits[0], golden.logits, atol=1e-6)


def test_there_is_no_pickle_in_a_bundle(tiny_bundle) -> None:
    names = {path.name for path in tiny_bundle.path.iterdir()}
    assert names == {
        "bundle.json", "config.json", "tokenizer.json", "weights.safetensors", "MODEL_CARD.md",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "weights.safetensors"])
def test_a_missing_or_changed_file_is_refused_by_name(copy, name) -> None:
    file = copy / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(BundleError, match=rf"{name} was changed"):
        load_bundle(copy)
    file.unlink()
    with pytest.raises(BundleError, match=rf"{name} is missing"):
        load_bundle(copy)


def test_a_file_that_is_not_listed_is_not_loaded(copy) -> None:
    (copy / "classify.onnx").write_bytes(b"whatever")
    with pytest.raises(BundleError, match=r"has no classify\.onnx; run `heedful export`"):
        load_bundle(copy).file("classify.onnx")


SPOILED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "newer format": (lambda record: record.update(format_version=2), "upgrade heedful"),
    "no format": (lambda record: record.pop("format_version"), "bundle format None"),
    "unknown field": (lambda record: record.update(teacher="x"), r"unknown fields \['teacher'\]"),
    "no files": (lambda record: record.pop("files"), "must list the files"),
    "weights unlisted": (lambda record: record["files"].pop(WEIGHTS), "must list the files"),
    "no golden": (lambda record: record.pop("golden"), "golden"),
    "golden of other labels": (lambda record: record["golden"]["logits"].pop(), "one logit per"),
    "a label twice": (lambda record: record.update(labels=["a", "a", "b"]), "each once"),
    "an empty label": (lambda record: record.update(labels=["a", "", "b"]), "none of them empty"),
    "labels of another number": (
        lambda record: (record["labels"].pop(), record["golden"]["logits"].pop()),
        "names 2 labels and its encoder has 3",
    ),
    "unknown problem": (lambda record: record.update(problem_type="ranking"), "problem_type"),
    "no room for a text": (lambda record: record.update(max_tokens=0), "at least 1"),
    "too many tokens": (lambda record: record.update(max_tokens=999), "positions for 41"),
    "a bad name": (lambda record: record.update(name="../x"), "letters, digits"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_a_manifest_that_cannot_be_right_is_refused(copy, case) -> None:
    edit, complaint = SPOILED[case]
    change(copy, edit)
    with pytest.raises(BundleError, match=complaint):
        load_bundle(copy)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/b", "..", "a\\b"])
def test_a_listed_file_cannot_lie_outside_the_folder(copy, name) -> None:
    (copy.parent / "outside").write_text("secret")
    change(copy, lambda record: record["files"].update({name: "0" * 64}))
    with pytest.raises(BundleError, match="not a plain file name"):
        load_bundle(copy)


def test_a_link_out_of_the_folder_is_refused(copy) -> None:
    outside = copy.parent / "outside.json"
    (copy / "config.json").rename(outside)
    (copy / "config.json").symlink_to(outside)
    with pytest.raises(BundleError, match="points out of the bundle"):
        load_bundle(copy)


def test_what_is_no_bundle_is_refused(tmp_path, copy) -> None:
    with pytest.raises(BundleError, match="is not a folder"):
        load_bundle(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=r"it has no bundle\.json"):
        load_bundle(tmp_path / "empty")
    (copy / MANIFEST).write_text("{")
    with pytest.raises(BundleError, match="cannot be read"):
        load_bundle(copy)
    (copy / MANIFEST).write_text("[]")
    with pytest.raises(BundleError, match="one JSON object"):
        load_bundle(copy)


def test_a_written_bundle_is_never_overwritten(tiny_bundle, tiny_encoder) -> None:
    before = (tiny_bundle.path / MANIFEST).read_bytes()
    tokenizer = train_tokenizer(["some text"], "wordpiece", 211)
    with pytest.raises(BundleError, match="a bundle is never changed"):
        write_bundle(tiny_bundle.path, tiny_encoder, tokenizer, name="x", labels=["a", "b", "c"])
    assert (tiny_bundle.path / MANIFEST).read_bytes() == before


def test_nobody_sees_half_a_bundle(tmp_path) -> None:
    target = tmp_path / "deep" / "bundle"
    with new_bundle(target) as draft:
        (draft / "file").write_text("half")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["bundle"]


def test_a_failed_write_leaves_nothing_behind(tmp_path) -> None:
    def fail() -> None:
        with new_bundle(tmp_path / "bundle") as draft:
            (draft / "file").write_text("half")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_of_two_writers_the_second_is_refused(tmp_path) -> None:
    def write_second() -> None:
        with new_bundle(tmp_path / "bundle"):
            (tmp_path / "bundle").mkdir()

    with pytest.raises(BundleError, match="never changed"):
        write_second()
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_network_that_answers_no_number_is_not_written(tmp_path, tiny_encoder) -> None:
    broken = EncoderClassifier(tiny_encoder.config)
    with torch.no_grad():
        broken.classifier.bias.fill_(float("nan"))
    tokenizer = train_tokenizer(["some text"], "wordpiece", 211)
    with pytest.raises(BundleError, match="NaN or infinity"):
        write_bundle(tmp_path / "x", broken, tokenizer, name="x", labels=["a", "b", "c"])
    assert not (tmp_path / "x").exists()


def test_a_manifest_needs_a_golden_example_for_its_labels() -> None:
    with pytest.raises(ValueError, match="one logit per label"):
        Manifest(
            name="x",
            version="1",
            created="now",
            labels=["a", "b"],
            problem_type="single_label",
            max_tokens=5,
            golden=Golden(input_ids=[1], logits=[0.0]),
        )
