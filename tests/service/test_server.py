"""A real server on a free port, with both backends, over stubs as protoc makes them."""

import asyncio

import numpy as np
import pytest

from heedful.v1 import classifier_pb2 as pb
from model.encoder import EncoderClassifier
from model.packing import pack, unpack_attentions
from model.weights import as_tensors
from service.request.scores import softmax
from tests.conftest import LABELS, SENTENCES
from tests.service.calls import TIMEOUT
from tests.service.engines import GoldenEngine

ENCODINGS = {
    pb.ATTENTION_ENCODING_FLOAT32: ("<f4", 1e-5),
    pb.ATTENTION_ENCODING_FLOAT16: ("<f2", 2.6e-4),
    pb.ATTENTION_ENCODING_UINT8_ROW_MAX: ("u1", 1 / 510 + 1e-5),
}


@pytest.fixture(scope="session")
def expected(tiny_bundle, tiny_encoder: EncoderClassifier):
    """What PyTorch says of one text by itself: token ids, logits (C,), attentions (L, H, n, n)."""

    def answer(text: str):
        ids = tiny_bundle.text_encoder().encode(text).input_ids
        rows = pack([ids])
        logits, attentions = tiny_encoder(*as_tensors(rows), with_attentions=True)
        square = next(unpack_attentions(rows, attentions.detach().numpy()))
        return ids, logits[0].detach().numpy(), square

    return answer


def test_texts_get_the_labels_they_would_get_alone_in_pytorch(caller, expected) -> None:
    response = caller.classify(*SENTENCES)
    assert len(response.results) == len(SENTENCES)
    for text, result in zip(SENTENCES, response.results, strict=True):
        _, logits, _ = expected(text)
        probabilities = np.array(softmax(logits.tolist()))
        order = np.argsort(-probabilities, kind="stable")
        assert [score.index for score in result.labels] == order.tolist()
        assert [score.label for score in result.labels] == [LABELS[index] for index in order]
        for score in result.labels:
            assert score.logit == pytest.approx(logits[score.index], abs=1e-4)
            assert score.probability == pytest.approx(probabilities[score.index], abs=1e-4)
            assert not score.HasField("applies")


def test_an_answer_names_its_model_and_says_where_the_time_went(caller, server) -> None:
    response = caller.classify("A kind film")
    assert response.model == "tiny"
    assert response.version == server.bundle.manifest.version
    assert response.precision == "float32"
    timings = response.timings
    parts = timings.tokenize_seconds + timings.queue_seconds + timings.compute_seconds
    assert timings.compute_seconds > 0
    assert parts <= timings.total_seconds


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_attention_is_what_pytorch_attended_to(caller, expected, encoding) -> None:
    response = caller.classify(*SENTENCES, attention=pb.AttentionOptions(encoding=encoding))
    kind, tolerance = ENCODINGS[encoding]
    for text, result in zip(SENTENCES, response.results, strict=True):
        ids, _, square = expected(text)
        assert [token.id for token in result.tokens] == ids
        attention = result.attention
        assert tuple(attention.shape) == square.shape
        assert list(attention.queries) == list(range(len(ids)))
        weights = np.frombuffer(attention.data, kind).reshape(attention.shape).astype(np.float64)
        if attention.row_max:
            maxima = np.frombuffer(attention.row_max, "<f4").reshape(attention.shape[:3])
            weights *= maxima[..., None] / 255
        assert np.abs(weights - square).max() < tolerance


def test_layers_heads_and_queries_are_answered_in_the_order_asked(caller, expected) -> None:
    options = pb.AttentionOptions(layers=[1, 0], heads=[4, 2], queries=[3, 0])
    (result,) = caller.classify(SENTENCES[0], attention=options).results
    _, _, square = expected(SENTENCES[0])
    wanted = square[[1, 0]][:, [4, 2]][:, :, [3, 0]]
    weights = np.frombuffer(result.attention.data, "<f4").reshape(result.attention.shape)
    assert np.abs(weights - wanted).max() < 1e-5
    assert list(result.attention.layers) == [1, 0]
    assert list(result.attention.heads) == [4, 2]
    assert list(result.attention.queries) == [3, 0]


def test_the_mean_over_heads_keeps_rows_that_sum_to_one(caller, expected) -> None:
    options = pb.AttentionOptions(heads=[0, 3], reduction=pb.REDUCTION_HEAD_MEAN)
    (result,) = caller.classify(SENTENCES[3], attention=options).results
    _, _, square = expected(SENTENCES[3])
    weights = np.frombuffer(result.attention.data, "<f4").reshape(result.attention.shape)
    assert weights.shape[1] == 1
    assert np.abs(weights[:, 0] - square[:, [0, 3]].mean(1)).max() < 1e-5
    assert weights.sum(-1) == pytest.approx(1.0, abs=1e-5)


def test_tokens_come_with_their_text_and_places(caller) -> None:
    text = "Kind 房间😀!"
    (result,) = caller.classify(text, return_tokens=True).results
    assert result.tokens[0].special
    assert result.tokens[0].text == ""
    assert all(token.text == text[token.begin : token.end] for token in result.tokens)
    assert "房" in [token.text for token in result.tokens]


def test_a_pair_is_read_together_and_its_tokens_know_their_text(caller) -> None:
    pair = pb.TextPair(first="Two hours", second="of noise")
    request = pb.ClassifyRequest(inputs=[pb.Input(pair=pair)], return_tokens=True)
    (result,) = caller.stub.Classify(request, timeout=20).results
    texts = {0: pair.first, 1: pair.second}
    for token in result.tokens:
        assert token.special or token.text == texts[token.segment][token.begin : token.end]
    assert {token.segment for token in result.tokens} == {0, 1}


def test_token_ids_are_answered_as_their_text_is(caller, expected) -> None:
    ids, logits, _ = expected(SENTENCES[1])
    request = pb.ClassifyRequest(
        inputs=[pb.Input(token_ids=pb.TokenIds(ids=ids))], return_tokens=True
    )
    (result,) = caller.stub.Classify(request, timeout=20).results
    scores = {score.index: score.logit for score in result.labels}
    assert [scores[index] for index in range(3)] == pytest.approx(logits.tolist(), abs=1e-4)
    assert [token.id for token in result.tokens] == ids


def test_top_k_and_the_target_label_choose_what_is_answered(caller) -> None:
    (ranked,) = caller.classify("A kind film").results
    last = ranked.labels[-1].label
    (result,) = caller.classify("A kind film", top_k=1, target_label=last).results
    assert [score.label for score in result.labels] == [ranked.labels[0].label, last]


@pytest.mark.parametrize(
    ("truncation", "kept"),
    [(pb.TRUNCATION_HEAD, "slowly"), (pb.TRUNCATION_TAIL, "honest")],
)
def test_truncation_keeps_the_end_asked_for_and_reports_the_loss(caller, truncation, kept) -> None:
    text = "slowly " * 60 + "honest " * 60
    response = caller.classify(text, truncation=truncation, return_tokens=True)
    (result,) = response.results
    assert {token.text for token in result.tokens if not token.special} <= set(kept) | {kept} | {
        kept[start:end] for start in range(7) for end in range(start + 1, 8)
    }
    loss = result.truncated
    assert loss.original_tokens - loss.lost_tokens == len(result.tokens) == 41
    assert loss.lost_characters > 0


def test_tokenize_answers_the_tokens_that_classify_reads(caller) -> None:
    inputs = [pb.Input(text=text) for text in SENTENCES]
    tokenized = caller.stub.Tokenize(pb.TokenizeRequest(inputs=inputs), timeout=20)
    classified = caller.classify(*SENTENCES, return_tokens=True)
    assert tokenized.model == "tiny"
    for left, right in zip(tokenized.results, classified.results, strict=True):
        assert list(left.tokens) == list(right.tokens)


def test_get_model_describes_the_bundle_and_its_backend(caller, server) -> None:
    answer = caller.stub.GetModel(pb.GetModelRequest(), timeout=20)
    assert list(answer.labels) == LABELS
    assert answer.problem_type == pb.PROBLEM_TYPE_SINGLE_LABEL
    assert (answer.num_hidden_layers, answer.num_attention_heads) == (2, 5)
    assert (answer.max_tokens, answer.hidden_size) == (41, 30)
    assert answer.max_inputs == server.config.max_inputs
    assert answer.backend == {"onnx": "onnxruntime", "torch": "torch"}[server.config.backend]
    assert answer.attention


def test_many_callers_at_once_each_get_their_own_answer(caller, expected) -> None:
    calls = []
    for number in range(60):
        text = SENTENCES[number % len(SENTENCES)]
        request = pb.ClassifyRequest(inputs=[pb.Input(text=text)])
        calls.append((text, caller.stub.Classify.future(request, timeout=20)))
    for text, call in calls:
        scores = {score.index: score.logit for score in call.result().results[0].labels}
        assert [scores[index] for index in range(3)] == pytest.approx(
            expected(text)[1].tolist(), abs=1e-4
        )


def test_a_server_that_grpc_has_left_alone_is_lost(start_server, tiny_bundle, caplog) -> None:
    server = start_server(tiny_bundle, load=lambda bundle, config: GoldenEngine(bundle))
    stopping = server.server._server.stop(0)
    asyncio.run_coroutine_threadsafe(stopping, server._loop).result(TIMEOUT)
    lost = asyncio.wait_for(server.server.lost.wait(), TIMEOUT)
    assert asyncio.run_coroutine_threadsafe(lost, server._loop).result(2 * TIMEOUT)
    assert "gRPC has stopped by itself" in caplog.text
