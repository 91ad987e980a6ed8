import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.config import EncoderConfig
from model.encoder import EncoderClassifier, count_parameters, sinusoidal_positions
from model.packing import pack, unpack_attentions
from model.weights import as_tensors


def config_of(**changes: object) -> EncoderConfig:
    values = {
        "vocab_size": 53,
        "num_labels": 3,
        "hidden_size": 30,
        "num_hidden_layers": 2,
        "num_attention_heads": 5,
        "intermediate_size": 37,
        "max_position_embeddings": 41,
    }
    return EncoderConfig(**{**values, **changes})


def texts_of(*lengths: int, seed: int = 1) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 53, size=length).tolist() for length in lengths]


@torch.inference_mode()
def run(encoder, texts, max_row_length=None, **options):
    rows = pack(texts, max_row_length=max_row_length)
    logits, attentions = encoder(*as_tensors(rows), **options)
    return rows, logits, attentions


def test_positions_are_the_published_formula() -> None:
    table = sinusoidal_positions(7, 6)
    for position in range(7):
        for pair in range(3):
            angle = position / 10000 ** (2 * pair / 6)
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 41), min_size=1, max_size=7), seed=st.integers(0, 99))
def test_a_text_gets_the_same_answer_alone_and_packed(pooling, lengths, seed) -> None:
    torch.manual_seed(seed)
    encoder = EncoderClassifier(config_of(pooling=pooling)).eval()
    texts = texts_of(*lengths, seed=seed)
    rows, logits, attentions = run(encoder, texts, max_row_length=90, with_attentions=True)
    squares = list(unpack_attentions(rows, attentions.numpy()))
    for index, text in enumerate(texts):
        _, alone, alone_attentions = run(encoder, [text], with_attentions=True)
        torch.testing.assert_close(logits[index], alone[0], atol=1e-5, rtol=0)
        np.testing.assert_allclose(squares[index], alone_attentions[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_rows_sum_to_one_and_leave_neighbours_alone(causal) -> None:
    encoder = EncoderClassifier(config_of(pooling="mean", causal=causal)).eval()
    rows, _, attentions = run(encoder, texts_of(9, 4, 17, 1), with_attentions=True)
    same_text = rows.sequence_ids[:, :, None] == rows.sequence_ids[:, None, :]
    allowed = np.broadcast_to(same_text[:, None, None], attentions.shape)
    assert attentions.shape == (*rows.input_ids.shape[:1], 2, 5, *2 * rows.input_ids.shape[1:])
    assert (attentions.numpy()[~allowed] == 0).all()
    for square in unpack_attentions(rows, attentions.numpy()):
        np.testing.assert_allclose(square.sum(-1), 1, atol=1e-5)
        assert not causal or (np.triu(square, 1) == 0).all()


def test_attention_is_the_softmax_before_dropout() -> None:
    encoder = EncoderClassifier(config_of(dropout=0.5)).train()
    _, _, attentions = run(encoder, texts_of(11), with_attentions=True)
    np.testing.assert_allclose(attentions.sum(-1), 1, atol=1e-5)


def test_fused_and_written_out_attention_agree() -> None:
    encoder = EncoderClassifier(config_of()).eval()
    _, fused, none = run(encoder, texts_of(9, 4, 17, 1))
    _, written_out, _ = run(encoder, texts_of(9, 4, 17, 1), with_attentions=True)
    assert none is None
    torch.testing.assert_close(fused, written_out, atol=1e-5, rtol=0)


def test_single_head_matches_attention_computed_by_hand() -> None:
    torch.manual_seed(2)
    encoder = EncoderClassifier(
        config_of(num_hidden_layers=1, num_attention_heads=1, hidden_size=4)
    ).eval()
    text = texts_of(3)
    _, _, attentions = run(encoder, text, with_attentions=True)
    embeddings = encoder.embeddings.tokens.weight[text[0]] * 2.0  # sqrt(4)
    x = (embeddings + sinusoidal_positions(3, 4)).detach().numpy()
    weight, bias = (p.detach().numpy() for p in encoder.layers[0].attention.qkv.parameters())
    query, key = x @ weight[:4].T + bias[:4], x @ weight[4:8].T + bias[4:8]
    scores = np.exp(query @ key.T / 2.0)
    np.testing.assert_allclose(
        attentions[0, 0, 0], scores / scores.sum(1, keepdims=True), atol=1e-6
    )


def test_gate_of_ones_changes_nothing_and_of_zero_switches_the_head_off() -> None:
    encoder = EncoderClassifier(config_of()).eval()
    texts = texts_of(9, 4)
    _, plain, plain_attentions = run(encoder, texts, with_attentions=True)
    _, gated, _ = run(encoder, texts, head_gate=torch.ones(2, 5))
    torch.testing.assert_close(plain, gated, atol=1e-6, rtol=0)

    gate = torch.ones(2, 5)
    gate[1, 3] = 0
    _, off, off_attentions = run(encoder, texts, head_gate=gate, with_attentions=True)
    assert (off - plain).abs().max() > 1e-4
    torch.testing.assert_close(off_attentions, plain_attentions, atol=1e-6, rtol=0)
    with torch.no_grad():  # the same as a context that the output projection ignores
        encoder.layers[1].attention.output.weight[:, 18:24] = 0
    _, silenced, _ = run(encoder, texts)
    torch.testing.assert_close(off, silenced, atol=1e-5, rtol=0)


def test_order_of_words_matters() -> None:
    encoder = EncoderClassifier(config_of()).eval()
    text = texts_of(9)[0]
    _, logits, _ = run(encoder, [text, [text[0], *reversed(text[1:])]])
    assert (logits[0] - logits[1]).abs().max() > 1e-4


def test_base_preset_has_the_size_its_name_promises() -> None:
    encoder = EncoderClassifier(EncoderConfig(vocab_size=8000, num_labels=2))
    per_layer = 4 * 512 * 512 + 4 * 512 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512
    assert count_parameters(encoder) == 8000 * 512 + 6 * per_layer + 2 * 512 + 2
