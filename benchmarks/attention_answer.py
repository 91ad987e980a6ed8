"""What an attention answer costs beyond the engine's run: cut out, encoded, sent and received.

6 layers, 8 heads, one text of 128 tokens. What the run itself costs is benchmarks.attention.

Run: python -m benchmarks.attention_answer
"""

import statistics
import time
from collections.abc import Callable

import grpc

from benchmarks.bundles import random_bundle
from benchmarks.serving.servers import serving
from benchmarks.serving.texts import WORDS
from heedful.v1 import classifier_pb2 as pb
from model.packing import pack
from service.config import ServerConfig
from service.server import load_engine

ROUNDS, NUM_TOKENS = 31, 128
ENCODINGS = {
    "float32": pb.ATTENTION_ENCODING_FLOAT32,
    "float16": pb.ATTENTION_ENCODING_FLOAT16,
    "uint8": pb.ATTENTION_ENCODING_UINT8_ROW_MAX,
}


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    text = " ".join(WORDS[index % len(WORDS)] for index in range(NUM_TOKENS - 2))
    with random_bundle("base") as bundle, serving(bundle) as server:
        rows = pack([bundle.text_encoder().encode(text).input_ids])
        engine = load_engine(bundle, ServerConfig())
        options = (("grpc.max_receive_message_length", -1),)
        with grpc.insecure_channel(server.address, options) as channel:
            call = channel.unary_unary("/heedful.v1.Classifier/Classify")
            requests = {
                name: pb.ClassifyRequest(
                    inputs=[pb.Input(text=text)], attention=pb.AttentionOptions(encoding=encoding)
                ).SerializeToString()
                for name, encoding in ENCODINGS.items()
            }
            sizes = {name: len(call(request)) for name, request in requests.items()}
            engine.run_with_attentions(rows)
            over: dict[str, list[float]] = {name: [] for name in requests}
            for _ in range(ROUNDS):  # taken in turns, so that a busy moment hits all
                computing = milliseconds(lambda: engine.run_with_attentions(rows))
                for name, request in requests.items():
                    over[name].append(milliseconds(lambda data=request: call(data)) - computing)
    print(f"Attention of 6 layers, 8 heads, {NUM_TOKENS} tokens, median of {ROUNDS} rounds:")
    for name, values in over.items():
        size, cost = sizes[name] / 2**20, statistics.median(values)
        print(f"  {name:8} {size:5.2f} MiB, {cost:5.1f} ms over the compute")


if __name__ == "__main__":
    main()
