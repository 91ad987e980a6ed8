"""The engine on an int8 bundle: exact in its own way, and on the CPU only."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.bundle import Golden, load_bundle
from model.errors import BundleError, SetupError
from model.packing import pack
from service.backends.loading import check_golden, load_backend
from tests.service.backends.texts import close, texts_of


@pytest.fixture(scope="module")
def int8_backend(int8_bundle):
    return load_backend("onnx", int8_bundle, threads=1, spinning=False)


def test_int8_is_what_the_bundle_says_and_pytorch_stays_float32(int8_bundle, int8_backend) -> None:
    assert int8_backend.precision == "int8"
    assert load_backend("torch", int8_bundle, threads=1).precision == "float32"


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 41), min_size=1, max_size=7),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)
def test_int8_answers_do_not_depend_on_neighbours_or_threads(
    int8_bundle, int8_backend, lengths, threads, seed
) -> None:
    texts = texts_of(int8_bundle, lengths, seed)
    other = load_backend("onnx", int8_bundle, threads=threads, spinning=False)
    packed = other.run(pack(texts, max_row_length=60))
    for text, logits in zip(texts, packed, strict=True):
        close(logits, int8_backend.run(pack([text]))[0], 1e-6)


def test_int8_answers_the_same_whether_attention_is_asked_or_not(
    int8_bundle, int8_backend, onnx_backend
) -> None:
    rows = pack(texts_of(int8_bundle, [9, 4, 17, 1, 30, 2]))
    logits, attentions = int8_backend.run_with_attentions(rows)
    np.testing.assert_array_equal(logits, int8_backend.run(rows))
    np.testing.assert_array_equal(attentions, onnx_backend.run_with_attentions(rows)[1])


def test_int8_is_held_to_the_tolerance_of_its_bundle(int8_bundle, int8_backend) -> None:
    check_golden(int8_backend, int8_bundle)
    manifest = int8_bundle.manifest
    logits = [manifest.golden.logits[0] + 0.5, *manifest.golden.logits[1:]]
    golden = Golden(input_ids=manifest.golden.input_ids, logits=logits)
    wrong = replace(int8_bundle, manifest=replace(manifest, golden=golden))
    with pytest.raises(BundleError, match=r"allowed 0\.25"):
        check_golden(int8_backend, wrong)


@pytest.mark.parametrize(
    "tolerance", [{}, {"classify_logits": float("inf")}, {"classify_logits": "wide"}]
)
def test_int8_that_does_not_say_how_exact_is_refused(int8_bundle, int8_backend, tolerance) -> None:
    manifest = replace(int8_bundle.manifest, parity={"tolerance": tolerance})
    with pytest.raises(BundleError, match="does not say how exact"):
        check_golden(int8_backend, replace(int8_bundle, manifest=manifest))


def test_int8_is_refused_on_cuda_instead_of_falling_back(int8_bundle) -> None:
    with pytest.raises(SetupError, match=r"for cuda:1 use an export with --precision float32"):
        load_backend("onnx", int8_bundle, device="cuda:1", threads=1)


def test_an_unknown_precision_is_refused(tmp_path, int8_bundle) -> None:
    copy = shutil.copytree(int8_bundle.path, tmp_path / "b")
    record = json.loads((copy / "bundle.json").read_text(encoding="utf-8"))
    (copy / "bundle.json").write_text(json.dumps({**record, "precision": "int4"}), encoding="utf-8")
    with pytest.raises(BundleError, match="precision must be one of"):
        load_bundle(copy)
    del record["precision"]  # bundles of before
    (copy / "bundle.json").write_text(json.dumps(record), encoding="utf-8")
    assert load_bundle(copy).manifest.precision == "float32"
