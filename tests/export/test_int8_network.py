"""The int8 network answers as PyTorch does, and a text the same alone and among any others."""

from collections import Counter
from dataclasses import fields

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from export.int8 import int8_graph
from export.int8_attention import columns_at_once
from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.packing import PackedRows, Span, pack
from model.weights import as_tensors
from tests.export.int8_sessions import answers, random_texts, session_of

NEIGHBOURS = 1e-6
# Switches and sizes that export/int8.py answers to. A new one must be built there, then named here.
KNOWN_FIELDS = {
    "vocab_size", "num_labels", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "max_position_embeddings", "pooling", "causal", "dropout",
    "layer_norm_eps", "pad_token_id",
}  # fmt: skip


def encoder_of(**changes):
    torch.manual_seed(7)
    sizes = {
        "vocab_size": 50, "num_labels": 4, "hidden_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 33,
    }  # fmt: skip
    encoder = EncoderClassifier(EncoderConfig(**{**sizes, **changes})).eval()
    with torch.no_grad():  # what training would move: shifts that are 0 at first test nothing
        for name, parameter in encoder.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return encoder


@pytest.fixture(scope="module", params=["first", "mean", "causal"])
def network(request):
    """An encoder of each kind and its int8 graph."""
    kinds = {"first": {}, "mean": {"pooling": "mean"}, "causal": {"pooling": "mean"}}
    encoder = encoder_of(**kinds[request.param], causal=request.param == "causal")
    return encoder, session_of(int8_graph(encoder))


@pytest.mark.parametrize(
    ("head_size", "columns"), [(64, 16), (32, 16), (24, 12), (6, 6), (17, 17), (34, 2), (1, 1)]
)
def test_heads_are_cut_into_equal_parts_of_more_than_one_column(head_size, columns) -> None:
    assert columns_at_once(head_size) == columns


def test_the_int8_network_knows_every_switch_of_the_encoder() -> None:
    assert {field.name for field in fields(EncoderConfig)} == KNOWN_FIELDS


@torch.inference_mode()
def test_int8_agrees_with_pytorch_as_far_as_8_bits_can(network) -> None:
    encoder, session = network
    for lengths in ([1], [33], [9, 4, 17, 1, 30, 2], [5, 5, 5]):
        rows = pack(random_texts(50, lengths), max_row_length=40)
        expected, _ = encoder(*as_tensors(rows))
        found = answers(session, rows)
        assert found.dtype == np.float32
        assert found.shape == (len(lengths), 4)
        np.testing.assert_allclose(found, expected.numpy(), atol=0.1, rtol=0)


@settings(max_examples=60)
@given(
    text=st.lists(st.integers(0, 49), min_size=1, max_size=33),
    others=st.lists(st.integers(1, 33), max_size=12),
    place=st.integers(0, 12),
    max_row_length=st.sampled_from([1, 50, 400]),
    seed=st.integers(0, 9999),
)
def test_a_text_answers_the_same_alone_and_among_any_others(
    network, text, others, place, max_row_length, seed
) -> None:
    _, session = network
    texts = random_texts(50, others, seed)
    place = min(place, len(texts))
    texts.insert(place, text)
    alone = answers(session, pack([text]))[0]
    packed = answers(session, pack(texts, max_row_length=max_row_length))[place]
    np.testing.assert_allclose(packed, alone, atol=NEIGHBOURS, rtol=0)


def one_row(texts):
    """All texts in one row, in order: longer than packing would make it."""
    starts = np.cumsum([0, *map(len, texts[:-1])])
    spans = tuple(Span(0, int(start), len(text)) for start, text in zip(starts, texts, strict=True))
    return PackedRows(
        input_ids=np.concatenate(texts)[None],
        position_ids=np.concatenate([np.arange(len(text)) for text in texts])[None],
        sequence_ids=np.repeat(np.arange(1, len(texts) + 1), [len(text) for text in texts])[None],
        cls_index=starts.astype(np.int64),
        spans=spans,
    )


@pytest.mark.parametrize("num_heads", [2, 4])
def test_sums_over_long_rows_move_no_answer(num_heads) -> None:
    """To the last digit: what differs by 1e-7 here tips roundings in larger networks.

    Heads of 64 columns would be summed in blocks of 256 keys.
    """
    encoder = encoder_of(
        hidden_size=128,
        num_attention_heads=num_heads,
        intermediate_size=256,
        max_position_embeddings=300,
        num_hidden_layers=3,
    )
    session = session_of(int8_graph(encoder))
    texts = random_texts(50, [150, 250, 40, 300, 13, 7, 1, 90, 31])
    packed = answers(session, one_row(texts))
    alone = np.concatenate([answers(session, pack([text])) for text in texts])
    np.testing.assert_array_equal(packed, alone)


def test_onnx_runtime_leaves_the_order_of_sums_alone(tmp_path) -> None:
    """Its optimizer must not put back the operators that the graph avoids."""
    path = tmp_path / "optimized.onnx"
    session_of(int8_graph(encoder_of()), optimized=path)
    count = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert count["MatMulIntegerToFloat"] == 4 * 2 + 1  # the last layer's queries are fewer
    assert count["QuantizeLinear"] == 4 * 2
    assert count["Exp"] == count["Gelu"] == 2
    assert count["LayerNormalization"] == 2 * 2
    avoided = {"Softmax", "SkipLayerNormalization", "BiasGelu"}
    assert not avoided & set(count)
