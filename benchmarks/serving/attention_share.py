"""Figure 4: what plain requests pay for a bundle that can answer attention, and for those who ask.

Asked for is the last layer, every head, as uint8.
"""

from contextlib import ExitStack
from functools import partial

from benchmarks.bundles import without_attention
from benchmarks.serving.rounds import Ways, in_turns, median, ratio
from benchmarks.serving.servers import loaded, serving
from model.bundle import Bundle

IN_FLIGHT = 8
NONE, FEW, ALL = "0 %", "5 %", "100 %"
# The same again shows what noise is.
SHARES = {NONE: 0.0, "0 % again": 0.0, FEW: 0.05, ALL: 1.0}


def attention_share(bundle: Bundle, texts: list[str], seconds: float, rounds: int) -> None:
    with ExitStack() as stack:
        plain = stack.enter_context(serving(stack.enter_context(without_attention(bundle))))
        able = stack.enter_context(serving(bundle))
        load = {"in_flight": IN_FLIGHT, "seconds": seconds}
        ways: Ways = {"no attention.onnx": partial(loaded, plain, texts, **load)}
        for way, share in SHARES.items():
            layer = bundle.config.num_hidden_layers - 1
            ways[way] = partial(loaded, able, texts, attention=share, layer=layer, **load)
        found = in_turns(ways, rounds)
    print(f"Attention asked by a share of requests, {IN_FLIGHT} in flight, a text each:")
    for way, turns in found.items():
        print(
            f"  {way:<18} plain {median(turns, 'per_second'):6.1f}/s, "
            f"p50 {median(turns, 'p50_ms'):5.1f} ms; "
            f"with attention {median(turns, 'attention_per_second'):6.1f}/s, "
            f"p50 {median(turns, 'attention_p50_ms'):5.1f} ms"
        )
    for way in list(SHARES)[:2]:
        print(ratio(found, way, "no attention.onnx"))
        print(ratio(found, way, "no attention.onnx", "p50_ms") + " (p50)")
