"""Two other ways to serve the same bundle, written plainly, over the same protocol and engine.

Run by __main__.py: python -m benchmarks.serving.rivals {padded,threads} BUNDLE
"""

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from benchmarks.training import padded
from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierServicer, add_ClassifierServicer_to_server
from model.bundle import Bundle, load_bundle
from model.packing import pack
from service.backends.loading import load_backend
from service.quota import usable_cpus
from service.request.scores import softmax

MAX_BATCH, WAIT_SECONDS = 32, 0.003
WORKERS = 64


def answer(labels: Sequence[str], logits: np.ndarray) -> pb.ClassifyResponse:
    response = pb.ClassifyResponse()
    for row in logits.tolist():
        result = response.results.add()
        for index, probability in enumerate(softmax(row)):
            result.labels.add(
                label=labels[index], index=index, probability=probability, logit=row[index]
            )
    return response


class PaddedBatches(ClassifierServicer):
    """What most servers do: first come, up to 32 a batch or 3 ms of waiting, padded to the longest.

    One session with all the processors' threads; nobody is refused.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._encoder, self._labels = bundle.text_encoder(), bundle.manifest.labels
        self._backend = load_backend("onnx", bundle, threads=usable_cpus(), spinning=False)
        self._queue: asyncio.Queue[tuple[list[int], asyncio.Future[np.ndarray]]] = asyncio.Queue()
        self._batching = asyncio.create_task(self._run())

    async def Classify(self, request, context):  # noqa: N802 - the contract's name
        futures = []
        for asked in request.inputs:
            future = asyncio.get_running_loop().create_future()
            self._queue.put_nowait((self._encoder.encode(asked.text).input_ids, future))
            futures.append(future)
        return answer(self._labels, np.stack(await asyncio.gather(*futures)))

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            end = asyncio.get_running_loop().time() + WAIT_SECONDS
            try:
                async with asyncio.timeout_at(end):
                    while len(batch) < MAX_BATCH:
                        batch.append(await self._queue.get())
            except TimeoutError:
                pass
            rows = padded([ids for ids, _ in batch])
            logits = await asyncio.to_thread(self._backend.run, rows)
            for (_, future), row in zip(batch, logits, strict=True):
                if not future.done():
                    future.set_result(row)


class ThreadPerRequest(ClassifierServicer):
    """The plainest thing there is: a thread a request, a text a run, one shared session.

    The session has one thread, so that as many runs as there are processors go on side by side.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._encoder, self._labels = bundle.text_encoder(), bundle.manifest.labels
        self._backend = load_backend("onnx", bundle, threads=1, spinning=False)

    def Classify(self, request, context):  # noqa: N802 - the contract's name
        runs = [pack([self._encoder.encode(asked.text).input_ids]) for asked in request.inputs]
        return answer(self._labels, np.concatenate([self._backend.run(rows) for rows in runs]))


async def serve_padded(bundle: Bundle) -> None:
    server = grpc.aio.server()
    add_ClassifierServicer_to_server(PaddedBatches(bundle), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready(port)
    await server.wait_for_termination()


def serve_threads(bundle: Bundle) -> None:
    server = grpc.server(ThreadPoolExecutor(WORKERS))
    add_ClassifierServicer_to_server(ThreadPerRequest(bundle), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ready(port)
    server.wait_for_termination()


def ready(port: int) -> None:
    """In the words of heedful's log."""
    print(f"listening on 127.0.0.1:{port}\nready after", file=sys.stderr, flush=True)


if __name__ == "__main__":
    _, kind, path = sys.argv
    if kind == "padded":
        asyncio.run(serve_padded(load_bundle(path)))
    else:
        serve_threads(load_bundle(path))
