"""Both engines give the same answers at any shape of rows, and refuse what they cannot do."""

import threading
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.graphs import CLASSIFY
from model.bundle import CLASSIFY_GRAPH, Golden
from model.errors import BundleError, SetupError
from model.packing import pack, unpack_attentions
from service.backends.loading import check_golden, load_backend
from tests.service.backends.texts import close, texts_of

LOGITS, ATTENTIONS, NEIGHBOURS = 1e-4, 1e-5, 1e-5
LENGTHS = [[1], [41], [1, 1], [9, 4, 17, 1, 30, 2]]


def assert_backends_agree(bundle, one, other, lengths, seed=1):
    rows = pack(texts_of(bundle, lengths, seed), max_row_length=60)
    close(one.run(rows), other.run(rows), LOGITS)
    logits, attentions = one.run_with_attentions(rows)
    other_logits, other_attentions = other.run_with_attentions(rows)
    assert logits.dtype == attentions.dtype == np.float32
    assert logits.shape == (len(lengths), 3)
    assert attentions.shape == (*rows.input_ids.shape[:1], 2, 5, *2 * rows.input_ids.shape[1:])
    close(logits, other_logits, LOGITS)
    close(logits, one.run(rows), LOGITS)
    close(attentions, other_attentions, ATTENTIONS)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_both_backends_agree(exported_bundle, onnx_backend, torch_backend, lengths) -> None:
    assert_backends_agree(exported_bundle, onnx_backend, torch_backend, lengths)


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 41), min_size=1, max_size=7), seed=st.integers(0, 99))
def test_both_backends_agree_on_rows_of_any_shape(
    exported_bundle, onnx_backend, torch_backend, lengths, seed
) -> None:
    assert_backends_agree(exported_bundle, onnx_backend, torch_backend, lengths, seed)


def test_a_text_gets_the_same_answer_alone_and_packed(exported_bundle, backend) -> None:
    texts = texts_of(exported_bundle, [9, 4, 17, 1, 30, 2, 41])
    rows = pack(texts, max_row_length=60)
    assert rows.sequence_ids.max() > 1
    plain = backend.run(rows)
    logits, attentions = backend.run_with_attentions(rows)
    squares = list(unpack_attentions(rows, attentions))
    for index, text in enumerate(texts):
        alone = pack([text])
        close(plain[index], backend.run(alone)[0], NEIGHBOURS)
        alone_logits, alone_attentions = backend.run_with_attentions(alone)
        close(logits[index], alone_logits[0], NEIGHBOURS)
        close(squares[index], alone_attentions[0], NEIGHBOURS)


def test_attention_rows_are_probabilities_over_their_own_text(exported_bundle, backend) -> None:
    rows = pack(texts_of(exported_bundle, [9, 4, 17, 1, 30, 2]))
    _, attentions = backend.run_with_attentions(rows)
    for square in unpack_attentions(rows, attentions):
        close(square.sum(-1), 1, ATTENTIONS)
    outside = (rows.sequence_ids[:, :, None] != rows.sequence_ids[:, None, :])[:, None, None]
    assert outside.any()
    assert (attentions[np.broadcast_to(outside, attentions.shape)] == 0).all()


def test_a_backend_says_what_it_is(exported_bundle, onnx_backend, torch_backend) -> None:
    assert (onnx_backend.name, onnx_backend.device) == ("onnxruntime", "cpu")
    assert (torch_backend.name, torch_backend.device) == ("torch", "cpu")
    assert onnx_backend.precision == torch_backend.precision == "float32"
    assert onnx_backend.has_attention
    assert torch_backend.has_attention


def test_sums_and_layer_norms_are_not_fused_on_the_cpu(exported_bundle, onnx_backend) -> None:
    """To the last digit, in which the fused operator differs."""
    rows = pack(texts_of(exported_bundle, [9, 4, 17, 1, 30, 2]))
    feed = {name: getattr(rows, name) for name in CLASSIFY.inputs}
    apart, fused = (
        onnxruntime.InferenceSession(
            exported_bundle.file(CLASSIFY_GRAPH),
            providers=["CPUExecutionProvider"],
            disabled_optimizers=disabled,
        ).run(None, feed)[0]
        for disabled in (["SkipLayerNormFusion"], [])
    )
    assert (apart != fused).any()
    np.testing.assert_array_equal(onnx_backend.run(rows), apart)


def test_the_attention_graph_is_loaded_once_however_many_ask_first(exported_bundle) -> None:
    backend = load_backend("onnx", exported_bundle, threads=1, spinning=False)
    assert backend._attention is None
    together, sessions = threading.Barrier(4), []

    def ask():
        together.wait()
        sessions.append(backend._attention_session())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sessions) == 4
    assert len(set(map(id, sessions))) == 1


def test_the_golden_example_is_answered(exported_bundle, backend) -> None:
    check_golden(backend, exported_bundle)


@pytest.mark.parametrize("wrong", [2e-3, float("nan")])
def test_another_answer_to_the_golden_example_is_refused_with_the_figures(
    exported_bundle, backend, wrong
) -> None:
    golden = exported_bundle.manifest.golden
    logits = [golden.logits[0] + wrong, *golden.logits[1:]]
    manifest = replace(
        exported_bundle.manifest, golden=Golden(input_ids=golden.input_ids, logits=logits)
    )
    with pytest.raises(BundleError, match=r"largest difference (0\.002|nan), allowed 0\.001"):
        check_golden(backend, replace(exported_bundle, manifest=manifest))


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_device_that_is_not_there_is_never_replaced(exported_bundle, kind, device) -> None:
    import torch

    if torch.cuda.is_available() or "CUDAExecutionProvider" in (
        onnxruntime.get_available_providers()
    ):
        pytest.skip("this machine has CUDA")
    with pytest.raises(SetupError, match=rf"the device {device} was asked for"):
        load_backend(kind, exported_bundle, device=device, threads=1)


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", ""])
def test_a_device_with_no_meaning_is_refused(exported_bundle, kind, device) -> None:
    with pytest.raises(SetupError, match="must be cpu, cuda or cuda:N"):
        load_backend(kind, exported_bundle, device=device, threads=1)


def test_an_unknown_backend_and_no_threads_are_refused(exported_bundle) -> None:
    with pytest.raises(SetupError, match="one of"):
        load_backend("tensorrt", exported_bundle, threads=1)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        load_backend("onnx", exported_bundle, threads=0)
