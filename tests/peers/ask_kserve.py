"""Asks a server through KServe's client as its users do; prints what came back as JSON.

Run by the Python of build/peers/kserve, which has no heedful: ask_kserve.py ADDRESS
"""

import asyncio
import json
import sys
from typing import Any

import grpc
import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest

SENTENCES = ["A film that warms the heart", "房间很干净"]


def text_request(model: str = "tiny", *, typed: bool = False, **more: Any) -> InferRequest:
    tensor = InferInput("text", [2], "BYTES")
    texts = np.array([text.encode() for text in SENTENCES], object)
    tensor.set_data_from_numpy(texts, binary_data=not typed)
    return InferRequest(model, [tensor], **more)


def ids_request(rows: list[list[int]], outputs: list[str]) -> InferRequest:
    from kserve.protocol.infer_type import RequestedOutput

    ids = np.array(rows, np.int64)
    tensor = InferInput("input_ids", list(ids.shape), "INT64")
    tensor.set_data_from_numpy(ids, binary_data=True)
    return InferRequest(
        "tiny", [tensor], request_outputs=[RequestedOutput(name) for name in outputs]
    )


def classes_request() -> InferRequest:
    from kserve.protocol.infer_type import RequestedOutput

    request = text_request()
    request.request_outputs = [RequestedOutput("probabilities", {"classification": 2})]
    return request


def listed(response: Any) -> dict[str, Any]:
    found = {}
    for output in response.outputs:
        array = output.as_numpy()
        if array.dtype == object:
            words = [word.decode() if isinstance(word, bytes) else word for word in array.flat]
            array = np.array(words, object).reshape(array.shape)
        found[output.name] = array.tolist()
    return found


async def status_of(client: InferenceGRPCClient, request: InferRequest) -> str:
    try:
        await client.infer(request)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "answered"


async def main(address: str) -> dict[str, Any]:
    client = InferenceGRPCClient(address)
    plain = await client.infer(text_request(request_id="seven"))
    typed = await client.infer(text_request(typed=True))
    by_ids = await client.infer(ids_request([[2, 9, 3], [2, 8, 3]], ["logits"]))
    attended = await client.infer(ids_request([[2, 9, 3]], ["attentions"]))
    classified = await client.infer(classes_request())
    return {
        "live": await client.is_server_live(),
        "ready": await client.is_server_ready(),
        "model_ready": await client.is_model_ready("tiny"),
        "id": plain.id,
        "version": plain.model_version,
        "plain": listed(plain),
        "typed": listed(typed),
        "by_ids": listed(by_ids),
        "attentions": listed(attended),
        "classified": listed(classified),
        "statuses": {
            "unknown model": await status_of(client, text_request("other")),
            "id over the vocabulary": await status_of(client, ids_request([[2, 10**6, 3]], [])),
        },
    }


if __name__ == "__main__":
    json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
