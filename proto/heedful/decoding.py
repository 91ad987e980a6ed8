"""Attention bytes to numpy.

L layers, H heads, Q queries, T keys, which are all tokens of the input.
"""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import AnswerError
from heedful.v1 import classifier_pb2 as pb

FloatArray = npt.NDArray[np.float32]

WIRE_TYPES: dict[int, np.dtype[Any]] = {
    pb.ATTENTION_ENCODING_FLOAT32: np.dtype("<f4"),
    pb.ATTENTION_ENCODING_FLOAT16: np.dtype("<f2"),
    pb.ATTENTION_ENCODING_UINT8_ROW_MAX: np.dtype("u1"),
}


def decode_weights(message: pb.Attention) -> FloatArray:
    """Weights (L, H, Q, T) in float32; read-only, and without a copy if they came as float32.

    Raises:
        AnswerError: an encoding this client does not know, or bytes that do not fill the shape.
    """
    shape = tuple(message.shape)
    if len(shape) != 4:
        raise AnswerError(f"attention must have 4 axes, and the server says {list(shape)}")
    if message.encoding not in WIRE_TYPES:
        raise AnswerError(
            f"the server wrote attention with encoding {message.encoding}, "
            "which this client does not know: upgrade heedful"
        )
    values = _read(message.data, WIRE_TYPES[message.encoding], shape)
    if message.encoding == pb.ATTENTION_ENCODING_UINT8_ROW_MAX:
        row_max = _read(message.row_max, np.dtype("<f4"), shape[:3])
        values = values * (row_max / np.float32(255))[..., None]  # (L, H, Q, T)
    weights = values.astype(np.float32, copy=False)
    weights.flags.writeable = False
    return weights


def _read(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if min(shape) < 0 or len(data) != prod(shape) * dtype.itemsize:
        raise AnswerError(
            f"{len(data)} bytes of attention do not fill {list(shape)} of {dtype.itemsize} bytes"
        )
    return np.frombuffer(data, dtype).reshape(shape)
