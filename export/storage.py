"""Writes several graphs over one file of weights, each tensor once."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx.external_data_helper import set_external_data

from model.bundle import GRAPH_WEIGHTS

# Smaller tensors stay in the graph: shape inference wants to see them.
MIN_EXTERNAL_BYTES = 1024
# Engines map the file into memory by whole pages.
PAGE_BYTES = 4096


def save_graphs(folder: Path, models: Mapping[str, onnx.ModelProto]) -> None:
    """Writes each model under its file name, and their weights into one weights.bin.

    The weights are named relative to the graph, so the folder can be moved. The models are changed:
    their large tensors point into the file afterwards.
    """
    places: dict[bytes, int] = {}  # sha256 -> offset
    with (folder / GRAPH_WEIGHTS).open("wb") as file:
        for model in models.values():
            for tensor in model.graph.initializer:
                data = onnx.numpy_helper.to_array(tensor).tobytes()
                if len(data) >= MIN_EXTERNAL_BYTES:
                    _move_out(tensor, data, file, places)
    for name, model in models.items():
        (folder / name).write_bytes(model.SerializeToString(deterministic=True))
        onnx.checker.check_model(str(folder / name), full_check=True)


def _move_out(
    tensor: onnx.TensorProto, data: bytes, file: BinaryIO, places: dict[bytes, int]
) -> None:
    digest = hashlib.sha256(data).digest()
    if digest not in places:
        file.seek(-file.tell() % PAGE_BYTES, 1)
        places[digest] = file.tell()
        file.write(data)
    tensor.raw_data = data  # set_external_data wants a tensor that holds raw bytes
    set_external_data(tensor, GRAPH_WEIGHTS, places[digest], len(data))
    tensor.ClearField("raw_data")
