"""EncoderConfig: presets, refusals, and its way through JSON."""

import json

import pytest

from model.config import PRESETS, EncoderConfig
from model.errors import BundleError

SIZES = {"vocab_size": 53, "num_labels": 3}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_possible(preset) -> None:
    config = EncoderConfig(**SIZES, **PRESETS[preset])
    assert config.head_size * config.num_attention_heads == config.hidden_size


def test_the_base_preset_is_six_layers_of_512() -> None:
    config = EncoderConfig(**SIZES, **PRESETS["base"])
    assert config == EncoderConfig(
        **SIZES,
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=2048,
        dropout=0.1,
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"vocab_size": 0}, "vocab_size must be a whole number"),
        ({"num_labels": True}, "num_labels must be a whole number"),
        ({"num_hidden_layers": 1.0}, "num_hidden_layers must be a whole number"),
        ({"max_position_embeddings": -1}, "max_position_embeddings"),
        ({"intermediate_size": "8"}, "intermediate_size"),
        ({"num_attention_heads": 7}, "cannot be shared among 7 heads"),
        ({"hidden_size": 15, "num_attention_heads": 5}, "must be even"),
        ({"dropout": 1.0}, "dropout must be in"),
        ({"dropout": float("nan")}, "dropout must be in"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps must be positive"),
        ({"pooling": "max"}, "pooling must be one of"),
        ({"causal": True}, "use mean"),
        ({"pad_token_id": 53}, "pad_token_id 53 is not in the vocabulary"),
    ],
)
def test_impossible_values_are_refused_by_name(changes, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        EncoderConfig(**{**SIZES, **changes})


def test_json_gives_the_same_config_back() -> None:
    config = EncoderConfig(**SIZES, pooling="mean", causal=True, dropout=0.25)
    assert EncoderConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "must hold one JSON object"),
        (json.dumps({**SIZES, "rotary": True}), "unknown fields.*rotary"),
        (json.dumps({"vocab_size": 5}), "num_labels"),
        (json.dumps({**SIZES, "dropout": "much"}), "config.json"),
        (json.dumps({**SIZES, "dropout": 2}), "dropout must be in"),
    ],
)
def test_a_bad_config_file_is_a_bundle_error(text, complaint) -> None:
    with pytest.raises(BundleError, match=complaint):
        EncoderConfig.from_json(text)
