"""The figures beside an export, and the refusal of a worse one."""

import copy
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.bundle import CARD_HEADING, export_bundle
from export.errors import ParityError
from export.parity import FLOAT32, INT8, Figures, check_tolerance, measure_parity, parity_cases
from model.bundle import MODEL_CARD, WEIGHTS, seal
from model.tokenizer import TextEncoder

EXACT = Figures(
    classify_logits=0.0,
    attention_logits=0.0,
    logits_between_graphs=0.0,
    attentions=0.0,
    row_sums=0.0,
    outside_text=0.0,
    neighbours=0.0,
)


def test_each_case_and_version_is_in_the_bundle(exported_bundle) -> None:
    parity = exported_bundle.manifest.parity
    assert set(parity["cases"]) == {
        "one token",
        "maximum length",
        "packed",
        "pair",
        "Chinese",
        "emoji",
    }
    for figures in parity["cases"].values():
        assert set(figures) == set(asdict(FLOAT32))
        assert figures["classify_logits"] <= 1e-4
        assert figures["attention_logits"] <= 1e-4
        assert figures["attentions"] <= 1e-5
        assert figures["row_sums"] <= 1e-5
        assert figures["outside_text"] == 0
    assert parity["versions"]["torch"] == torch.__version__
    assert parity["opset"] == 20


def test_the_model_card_shows_the_figures_once(exported_bundle) -> None:
    card = exported_bundle.file(MODEL_CARD).read_text(encoding="utf-8")
    assert card.count(CARD_HEADING) == 1
    for case in exported_bundle.manifest.parity["cases"]:
        assert f"| {case} |" in card


def test_the_cases_cover_one_token_maximum_length_and_many_texts(
    exported_bundle, tiny_encoder
) -> None:
    cases = dict(parity_cases(tiny_encoder, exported_bundle.text_encoder()))
    assert cases["one token"].input_ids.shape == (1, 1)
    assert cases["maximum length"].input_ids.shape == (1, 41)
    packed = cases["packed"]
    assert len(packed.spans) > len(packed.input_ids) > 1
    assert 2 in packed.sequence_ids


def test_a_model_too_short_for_pairs_is_compared_on_the_rest(exported_bundle, tiny_encoder) -> None:
    short = TextEncoder.from_file(exported_bundle.path / "tokenizer.json", 3)
    assert "pair" not in dict(parity_cases(tiny_encoder, short))


@pytest.mark.parametrize(
    ("parameter", "figure"),
    [("classifier.bias", "classify_logits"), ("layers.1.attention.qkv.weight", "attentions")],
)
def test_graphs_of_other_weights_are_refused_with_the_figures(
    exported_bundle, tiny_encoder, parameter, figure
) -> None:
    other = copy.deepcopy(tiny_encoder)
    with torch.no_grad():
        other.get_parameter(parameter).mul_(1.01).add_(1e-3)
    with pytest.raises(ParityError, match=rf"packed: {figure} \d.*, allowed"):
        measure_parity(other, exported_bundle.path, exported_bundle.text_encoder())


@pytest.mark.parametrize(("precision", "limits"), [("float32", FLOAT32), ("int8", INT8)])
@pytest.mark.parametrize("figure", asdict(FLOAT32))
@pytest.mark.parametrize("value", [0.3, float("nan"), float("inf")])
def test_every_figure_can_refuse(precision, limits, figure, value) -> None:
    check_tolerance({"case": limits}, precision)
    with pytest.raises(ParityError, match=f"case: {figure}"):
        check_tolerance({"good": EXACT, "case": replace(EXACT, **{figure: value})}, precision)


def test_float32_is_held_to_more_than_int8_and_neighbours_to_less() -> None:
    check_tolerance({"case": replace(EXACT, classify_logits=1e-2)}, "int8")
    with pytest.raises(ParityError, match=r"classify_logits 0\.01, allowed 0\.0001"):
        check_tolerance({"case": replace(EXACT, classify_logits=1e-2)}, "float32")
    with pytest.raises(ParityError, match=r"neighbours 1e-05, allowed 1e-06"):
        check_tolerance({"case": replace(EXACT, neighbours=1e-5)}, "int8")


def test_a_network_that_answers_nan_leaves_nothing_behind(tmp_path, tiny_bundle) -> None:
    source = tmp_path / "broken"
    shutil.copytree(tiny_bundle.path, source)
    weights = load_file(source / WEIGHTS)
    weights["classifier.bias"][1] = torch.nan
    save_file(weights, source / WEIGHTS)
    seal(source, tiny_bundle.manifest, list(tiny_bundle.files))
    with pytest.raises(ParityError, match="nan"):
        export_bundle(source, tmp_path / "broken-onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]
