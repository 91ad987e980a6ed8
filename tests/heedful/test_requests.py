"""What is asked, and what is refused before anything is sent."""

import numpy as np
import pytest

from heedful import AttentionRequest, InvalidArgumentError
from heedful.requests import classify_request, one, several, tokenize_request
from heedful.v1 import classifier_pb2 as pb


def test_each_form_of_text_becomes_its_kind_of_input() -> None:
    request = classify_request(["a", ("b", "c"), [1, 2], np.array([3, 4])], {})
    assert [item.WhichOneof("kind") for item in request.inputs] == [
        "text",
        "pair",
        "token_ids",
        "token_ids",
    ]
    assert request.inputs[1].pair.second == "c"
    assert list(request.inputs[3].token_ids.ids) == [3, 4]


def test_options_become_fields_and_attention_is_absent_unless_asked_for() -> None:
    plain = classify_request(["a"], {})
    assert not plain.HasField("attention")
    assert not classify_request(["a"], {"attention": False}).HasField("attention")
    wanted = AttentionRequest(
        layers=[2, 0], heads=(1,), queries=[0], reduction="mean", dtype="uint8"
    )
    full = classify_request(
        ["a"],
        {
            "attention": wanted,
            "top_k": 3,
            "truncation": "head_tail",
            "target_label": "good",
            "tokens": True,
            "model": "m",
            "version": "v",
        },
    )
    assert full.attention == pb.AttentionOptions(
        layers=[2, 0],
        heads=[1],
        queries=[0],
        reduction=pb.REDUCTION_HEAD_MEAN,
        encoding=pb.ATTENTION_ENCODING_UINT8_ROW_MAX,
    )
    assert full.truncation == pb.TRUNCATION_HEAD_TAIL
    assert (full.top_k, full.target_label, full.return_tokens) == (3, "good", True)
    assert (full.model, full.version) == ("m", "v")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\ud800b", r"lone surrogate U\+D800 at character 1"),
        (("fine", "\udce9"), r"lone surrogate U\+DCE9 at character 0"),
        (("a", "b", "c"), "a pair holds two texts"),
        (("a", 3), "must be a string"),
        ([1.5], "whole numbers"),
        ([2**31], "32 bits"),
        (7, "sequence of whole numbers"),
        (b"bytes", "sequence of whole numbers"),
    ],
)
def test_texts_that_no_server_could_read_are_refused(text, says) -> None:
    with pytest.raises(InvalidArgumentError, match=says) as caught:
        classify_request([text], {})
    assert isinstance(caught.value, ValueError)
    with pytest.raises(InvalidArgumentError, match=says):
        tokenize_request([text], {})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"truncation": "middle"}, "one of"),
        ({"top_k": "3"}, "whole numbers"),
        ({"attention": "all"}, "AttentionRequest"),
        ({"attention": AttentionRequest(layers=[0.5])}, "layers must be whole numbers"),
        ({"attention": AttentionRequest(reduction="max")}, "reduction"),
        ({"attention": AttentionRequest(dtype="int4")}, "dtype"),
        ({"target_label": "\ud800"}, "target_label is not valid Unicode"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, says) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        classify_request(["a"], options)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="there is no option 'topk'"):
        classify_request(["a"], {"topk": 3})


def test_one_text_and_several_are_not_mixed_up() -> None:
    with pytest.raises(InvalidArgumentError, match="classify_many"):
        one(["a", "b"])
    with pytest.raises(InvalidArgumentError, match="use classify for one"):
        several("ab")
    assert several(iter(["a", ("b", "c")])) == ["a", ("b", "c")]
