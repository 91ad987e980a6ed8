"""The two graphs as files: shapes, operators, weights held once, and answers at many sizes."""

import shutil
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from export.bundle import export_bundle
from export.errors import ExportError
from export.graphs import ATTENTION, CLASSIFY, GRAPHS, _check_shapes
from export.storage import MIN_EXTERNAL_BYTES, PAGE_BYTES, save_graphs
from model.bundle import GRAPH_WEIGHTS, WEIGHTS, load_bundle
from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.errors import BundleError
from model.packing import pack
from model.tokenizer import train_tokenizer
from model.weights import as_tensors, write_bundle


def graph_of(bundle, graph):
    return onnx.load(bundle.file(graph.file), load_external_data=False)


def session_of(folder, graph):
    return onnxruntime.InferenceSession(folder / graph.file, providers=["CPUExecutionProvider"])


def feed_of(rows, **more):
    return {name: getattr(rows, name) for name in CLASSIFY.inputs} | more


def texts_of(encoder, *lengths):
    rng = np.random.default_rng(3)
    return [rng.integers(encoder.config.vocab_size, size=length).tolist() for length in lengths]


def external_places(model):
    """(offset, length) of each tensor in the file of weights."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            assert entries["location"] == GRAPH_WEIGHTS
            yield int(entries["offset"]), int(entries["length"])


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.file)
def test_rows_row_length_and_texts_are_free(exported_bundle, graph) -> None:
    model = graph_of(exported_bundle, graph)
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert list(shapes) == [*graph.inputs, *graph.outputs]
    assert shapes["input_ids"] == shapes["sequence_ids"] == ["rows", "row_length"]
    assert shapes["cls_index"] == ["texts"]
    assert shapes["logits"] == ["texts", 3]
    if graph is ATTENTION:
        assert shapes["head_gate"] == [2, 5]
        assert shapes["attentions"] == ["rows", 2, 5, "row_length", "row_length"]
    assert [opset.version for opset in model.opset_import if not opset.domain] == [20]


def test_an_axis_that_came_out_fixed_is_refused(exported_bundle) -> None:
    model = graph_of(exported_bundle, CLASSIFY)
    _check_shapes(model, CLASSIFY, exported_bundle.config)
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(ExportError, match=r"classify\.onnx: logits came out as \(1, 3\)"):
        _check_shapes(model, CLASSIFY, exported_bundle.config)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.file)
def test_the_graph_has_no_more_operators_than_the_network(exported_bundle, graph) -> None:
    model = graph_of(exported_bundle, graph)
    count = Counter(node.op_type for node in model.graph.node)
    layers = exported_bundle.config.num_hidden_layers
    assert (count["LayerNormalization"], count["Gelu"]) == (2 * layers, layers)
    assert count["Softmax"] == layers
    assert count["Where"] == 1  # one mask for all layers
    assert not {"IsNaN", "Erf", "GatherND", "Slice", "Dropout"} & set(count)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.file)
def test_the_mask_is_finite(exported_bundle, graph) -> None:
    model = onnx.load(exported_bundle.file(graph.file))
    for tensor in model.graph.initializer:
        assert np.isfinite(onnx.numpy_helper.to_array(tensor)).all(), tensor.name


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.file)
def test_the_graph_does_not_tell_where_it_was_made(exported_bundle, graph) -> None:
    assert b".py" not in exported_bundle.file(graph.file).read_bytes()


def test_weights_are_held_once_for_both_graphs(exported_bundle) -> None:
    classify, attention = (
        set(external_places(graph_of(exported_bundle, graph))) for graph in GRAPHS
    )
    assert classify
    assert classify == attention
    config = exported_bundle.config
    positions = 4 * config.max_position_embeddings * config.hidden_size
    weights = exported_bundle.file(WEIGHTS).stat().st_size + positions
    assert sum(length for _, length in classify) <= weights
    padding = PAGE_BYTES * len(classify)
    assert exported_bundle.file(GRAPH_WEIGHTS).stat().st_size <= weights + padding
    assert all(offset % PAGE_BYTES == 0 for offset, _ in classify)


def test_equal_tensors_share_a_place_and_small_ones_stay_in_the_graph(tmp_path) -> None:
    large = np.arange(MIN_EXTERNAL_BYTES, dtype=np.float32)

    def model_of(**tensors):
        names = list(tensors)
        nodes = [onnx.helper.make_node("Identity", [name], [f"{name}_out"]) for name in names]
        outputs = [
            onnx.helper.make_tensor_value_info(f"{name}_out", onnx.TensorProto.FLOAT, value.shape)
            for name, value in tensors.items()
        ]
        initializers = [onnx.numpy_helper.from_array(tensors[name], name) for name in names]
        graph = onnx.helper.make_graph(nodes, "made_up", [], outputs, initializers)
        return onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10
        )

    save_graphs(
        tmp_path,
        {
            "one.onnx": model_of(a=large, b=large + 1, c=np.ones(3, np.float32)),
            "two.onnx": model_of(d=large + 1, e=large + 2),
        },
    )
    assert (tmp_path / GRAPH_WEIGHTS).stat().st_size == 3 * large.nbytes
    outputs = [
        output
        for name in ("one.onnx", "two.onnx")
        for output in onnxruntime.InferenceSession(tmp_path / name).run(None, {})
    ]
    for output, expected in zip(
        outputs, [large, large + 1, np.ones(3), large + 1, large + 2], strict=True
    ):
        np.testing.assert_array_equal(output, expected)


@torch.inference_mode()
def test_a_gate_switches_heads_off_as_in_pytorch(exported_bundle, tiny_encoder) -> None:
    rows = pack(texts_of(tiny_encoder, 9, 4, 17))
    gate = np.random.default_rng(4).random((2, 5), dtype=np.float32)
    gate[1, 3] = 0
    expected = tiny_encoder(*as_tensors(rows), torch.from_numpy(gate), with_attentions=True)
    found = session_of(exported_bundle.path, ATTENTION).run(None, feed_of(rows, head_gate=gate))
    np.testing.assert_allclose(found[0], expected[0].numpy(), atol=1e-4, rtol=0)
    np.testing.assert_allclose(found[1], expected[1].numpy(), atol=1e-5, rtol=0)


@torch.inference_mode()
def test_mean_pooling_and_a_look_ahead_mask_export_too(tmp_path) -> None:
    tokenizer = train_tokenizer(["one two three"], "words", 20)
    config = EncoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
        num_labels=4,
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=10,
        max_position_embeddings=9,
        pooling="mean",
        causal=True,
    )
    encoder = EncoderClassifier(config).eval()
    write_bundle(tmp_path / "b", encoder, tokenizer, name="causal", labels=list("abcd"))
    exported = export_bundle(tmp_path / "b", tmp_path / "b-onnx")
    for lengths in ((1,), (9, 3, 5, 1), (2, 2, 2)):
        rows = pack(texts_of(encoder, *lengths))
        (logits,) = session_of(exported.path, CLASSIFY).run(None, feed_of(rows))
        expected, _ = encoder(*as_tensors(rows))
        np.testing.assert_allclose(logits, expected.numpy(), atol=1e-4, rtol=0)


def test_the_new_bundle_has_all_the_old_one_had(exported_bundle, tiny_bundle) -> None:
    for name in tiny_bundle.files:
        if name != "MODEL_CARD.md":
            assert exported_bundle.files[name] == tiny_bundle.files[name]
    assert {graph.file for graph in GRAPHS} | {GRAPH_WEIGHTS} <= set(exported_bundle.files)
    old, new = tiny_bundle.manifest, exported_bundle.manifest
    assert (new.version, new.golden, new.labels) == (old.version, old.golden, old.labels)
    assert not (tiny_bundle.path / CLASSIFY.file).exists()


def test_exporting_onto_something_is_refused_before_any_work(tmp_path, tiny_bundle) -> None:
    steps = []
    with pytest.raises(BundleError, match="exists"):
        export_bundle(tiny_bundle.path, tmp_path, steps.append)
    assert not steps


def test_an_exported_folder_can_be_moved(tmp_path, exported_bundle) -> None:
    shutil.copytree(exported_bundle.path, tmp_path / "elsewhere")
    moved = load_bundle(tmp_path / "elsewhere")
    for graph in GRAPHS:
        onnx.checker.check_model(str(moved.file(graph.file)), full_check=True)
        session_of(moved.path, graph)
