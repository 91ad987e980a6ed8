"""The sync and the asyncio client against a real server with each backend."""

import numpy as np
import pytest

from heedful import AsyncClient, AttentionRequest, Client, InvalidArgumentError, NotFoundError

TEXT = "A film that warms the heart, slowly and for good."


@pytest.fixture(scope="module")
def client(server):
    with Client(server.address) as client:
        client.wait_until_ready()
        yield client


def test_a_text_gets_all_labels_by_falling_probability(client) -> None:
    result = client.classify(TEXT)
    assert {score.label for score in result.labels} == {"bad", "fair", "good"}
    probabilities = [score.probability for score in result.labels]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)
    assert (result.label, result.probability) == (result.labels[0].label, probabilities[0])
    assert result.labels[0].applies is None
    assert result.attention is None
    assert result.tokens == ()
    assert (result.model, result.precision) == ("tiny", "float32")
    assert result.timings.total_seconds > 0
    assert f"{result.label} {result.probability:.3f}" in repr(result)


def test_attention_comes_as_rows_that_sum_to_1_with_their_tokens(client) -> None:
    result = client.classify(TEXT, attention=True)
    size = len(result.tokens)
    assert result.attention.weights.shape == (2, 5, size, size)
    assert np.allclose(result.attention.weights.sum(-1), 1, atol=1e-5)
    assert result.tokens[0].special
    assert not result.tokens[0].text
    for token in result.tokens[1:-1]:
        assert token.text == TEXT[token.begin : token.end]
    assert result.attention.texts == (TEXT,)


def test_a_part_of_attention_is_that_part_of_the_whole(client) -> None:
    whole = client.classify(TEXT, attention=True).attention
    wanted = AttentionRequest(layers=[1], heads=[4, 2], queries=[0, 3])
    part = client.classify(TEXT, attention=wanted).attention
    assert (part.layers, part.heads, part.queries) == ((1,), (4, 2), (0, 3))
    assert np.allclose(part.weights[0, 0], whole.weights[1, 4, [0, 3]], atol=1e-6)
    averaged = client.classify(TEXT, attention=AttentionRequest(reduction="mean")).attention
    assert averaged.averaged
    assert np.allclose(averaged.map(1), whole.map(1), atol=1e-6)


@pytest.mark.parametrize(("dtype", "error"), [("float16", 2.5e-4), ("uint8", 1 / 510)])
def test_smaller_numbers_stay_within_their_promised_error(client, dtype, error) -> None:
    exact = client.classify(TEXT, attention=True).attention.weights
    small = client.classify(TEXT, attention=AttentionRequest(dtype=dtype)).attention.weights
    assert small.dtype == np.float32
    assert 0 < np.abs(small - exact).max() <= error


def test_texts_pairs_and_ids_ride_in_one_request(client) -> None:
    ids = [token.id for token in client.tokenize(TEXT).tokens]
    text, pair, again = client.classify_many([TEXT, (TEXT, "房间很干净"), ids], tokens=True)
    assert [token.segment for token in pair.tokens][-2] == 1
    assert pair.tokens[-2].text == "净"
    assert again.labels[0].logit == pytest.approx(text.labels[0].logit, abs=1e-5)
    assert client.classify_many([]) == []


def test_options_reach_the_server(client) -> None:
    assert len(client.classify(TEXT, top_k=1).labels) == 1
    last = client.classify(TEXT).labels[-1].label
    labels = client.classify(TEXT, top_k=1, target_label=last).labels
    assert [score.label for score in labels][-1] == last
    long = TEXT * 9
    with pytest.raises(InvalidArgumentError, match="41"):
        client.classify(long)
    cut = client.classify(long, truncation="head", tokens=True)
    assert len(cut.tokens) == 41
    assert cut.truncated.original_tokens == 41 + cut.truncated.lost_tokens
    tail = client.tokenize(long, truncation="tail")
    assert tail.truncated.lost_tokens == cut.truncated.lost_tokens
    assert tail.tokens[-2].end == len(long)


def test_the_model_tells_its_limits(client) -> None:
    info = client.model_info()
    assert (info.num_hidden_layers, info.num_attention_heads, info.max_tokens) == (2, 5, 41)
    assert info.labels == ("bad", "fair", "good")
    assert info.problem_type == "single_label"
    assert info.attention
    with pytest.raises(NotFoundError):
        client.model_info("another")
    with pytest.raises(NotFoundError):
        client.classify(TEXT, model="another")


def test_a_layer_that_is_not_there_is_refused_by_name(client) -> None:
    with pytest.raises(InvalidArgumentError, match="layer 9") as caught:
        client.classify(TEXT, attention=AttentionRequest(layers=[9]))
    assert caught.value.reason


async def test_the_asyncio_client_answers_the_same(client, server) -> None:
    async with AsyncClient(server.address) as waiting:
        await waiting.wait_until_ready()
        assert await waiting.is_ready()
        info = await waiting.model_info()
        tokens = await waiting.tokenize(TEXT)
        result = await waiting.classify(TEXT, attention=True)
        many = await waiting.classify_many([TEXT, TEXT], top_k=1)
        assert await waiting.classify_many([]) == []
        with pytest.raises(InvalidArgumentError):
            await waiting.classify("")
    same = client.classify(TEXT, attention=True)
    assert info == client.model_info()
    assert tokens == client.tokenize(TEXT)
    assert result.labels[0].logit == pytest.approx(same.labels[0].logit, abs=1e-5)
    assert np.allclose(result.attention.weights, same.attention.weights, atol=1e-6)
    assert [len(answer.labels) for answer in many] == [1, 1]
