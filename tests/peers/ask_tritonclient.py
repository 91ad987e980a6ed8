"""Asks a server through NVIDIA's client as its users do; prints what came back as JSON.

Run by the Python of build/peers/tritonclient, which has no heedful: ask_tritonclient.py ADDRESS
"""

import json
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

SENTENCES = ["A film that warms the heart", "房间很干净"]


def text_input(texts: list[str], shape: list[int]) -> triton.InferInput:
    tensor = triton.InferInput("text", shape, "BYTES")
    tensor.set_data_from_numpy(np.array([t.encode() for t in texts], object).reshape(shape))
    return tensor


def ids_input(rows: list[list[int]]) -> triton.InferInput:
    ids = np.array(rows, np.int64)
    tensor = triton.InferInput("input_ids", list(ids.shape), "INT64")
    tensor.set_data_from_numpy(ids)
    return tensor


def listed(result: triton.InferResult, *names: str) -> dict[str, Any]:
    found = {}
    for name in names:
        array = result.as_numpy(name)
        if array.dtype == object:
            array = np.vectorize(bytes.decode, otypes=[object])(array)
        found[name] = array.tolist()
    return found


def status_of(client: triton.InferenceServerClient, inputs: list[Any], **options: Any) -> str:
    try:
        client.infer(options.pop("model", "tiny"), inputs, **options)
    except InferenceServerException as error:
        return str(error.status())
    return "answered"


def main(address: str) -> dict[str, Any]:
    client = triton.InferenceServerClient(address)
    both = text_input(SENTENCES, [2, 1])
    plain = client.infer("tiny", [both], request_id="seven")
    by_row = client.infer("tiny", [text_input(SENTENCES, [2])])
    by_ids = client.infer("tiny", [ids_input([[2, 9, 3], [2, 8, 3]])])
    attended = client.infer(
        "tiny",
        [ids_input([[2, 9, 3]])],
        outputs=[triton.InferRequestedOutput(name) for name in ("attentions", "labels")],
    )
    classified = client.infer(
        "tiny", [both], outputs=[triton.InferRequestedOutput("probabilities", class_count=2)]
    )
    truncated = client.infer(
        "tiny", [text_input(["kind " * 60], [1])], parameters={"truncation": "head", "top_k": 3}
    )
    response = plain.get_response()
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": client.is_model_ready("tiny"),
        "other_ready": client.is_model_ready("other"),
        "server": client.get_server_metadata(as_json=True),
        "metadata": client.get_model_metadata("tiny", as_json=True),
        "config": client.get_model_config("tiny", as_json=True),
        "index": client.get_model_repository_index(as_json=True),
        "id": response.id,
        "version": response.model_version,
        "order": [output.name for output in response.outputs],
        "plain": listed(plain, "logits", "probabilities", "labels"),
        "by_row": listed(by_row, "logits"),
        "by_ids": listed(by_ids, "logits"),
        "attentions": listed(attended, "attentions"),
        "attended_labels": listed(attended, "labels"),
        "classified": listed(classified, "probabilities"),
        "truncated": listed(truncated, "labels"),
        "lost_tokens": truncated.get_response().parameters["lost_tokens"].string_param,
        "statistics": client.get_inference_statistics("tiny", as_json=True),
        "streamed": streamed(client),
        "bulk": bulk(client),
        "statuses": {
            "unknown model": status_of(client, [both], model="other"),
            "unknown version": status_of(client, [both], model_version="9"),
            "unknown output": status_of(
                client, [both], outputs=[triton.InferRequestedOutput("embedding")]
            ),
            "id over the vocabulary": status_of(client, [ids_input([[2, 10**6, 3]])]),
            "timeout of a microsecond": status_of(client, [both], timeout=1),
            "priority": status_of(client, [both], priority=3),
            "unload": unload(client),
        },
    }


def streamed(client: triton.InferenceServerClient) -> list[list[Any]]:
    """Three requests over one stream, the second of them wrong: id, error and labels of each."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number, rows in enumerate(([[2, 9, 3]], [[2, 10**6, 3]], [[2, 8, 3]])):
        client.async_stream_infer("tiny", [ids_input(rows)], request_id=str(number))
    seen: list[list[Any]] = []
    for _ in range(3):
        result, error = answers.get(timeout=20)
        if error is None:
            logits = result.as_numpy("logits").tolist()
            seen.append([result.get_response().id, "", logits])
        else:
            seen.append(["", str(error), []])
    client.stop_stream()
    return seen


def bulk(client: triton.InferenceServerClient) -> list[list[Any]]:
    """A hundred requests over one stream, sent without waiting: id and number of tokens of each."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    outputs = [triton.InferRequestedOutput("logits"), triton.InferRequestedOutput("attentions")]
    for number in range(100):
        row = [[2, *[9] * (number % 7), 3]]
        client.async_stream_infer("tiny", [ids_input(row)], request_id=str(number), outputs=outputs)
    client.stop_stream()
    seen: list[list[Any]] = []
    while not answers.empty():
        result, error = answers.get()
        if error is not None:
            raise error
        seen.append([result.get_response().id, result.as_numpy("attentions").shape[-1]])
    return seen


def unload(client: triton.InferenceServerClient) -> str:
    try:
        client.unload_model("tiny")
    except InferenceServerException as error:
        return str(error.status())
    return "answered"


if __name__ == "__main__":
    json.dump(main(sys.argv[1]), sys.stdout)
