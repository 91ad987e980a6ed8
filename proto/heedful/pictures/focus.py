"""Which part of an answer's attention a picture shows, and what it is called."""

from dataclasses import dataclass

from heedful.attention import Attention

NOT_AN_EXPLANATION = "Attention shows where the model looked, not why it answered."


def title(attention: Attention, layer: int | None, head: int | None) -> str:
    """Names one map, as "layer 2, mean of 8 heads"."""
    layers = f"layer {layer}" if layer is not None else _mean_of(len(attention.layers), "layer")
    if layer is None and len(attention.layers) == 1:
        layers = f"layer {attention.layers[0]}"
    if head is not None:
        return f"{layers}, head {head}"
    if len(attention.heads) == 1:
        return f"{layers}, head {attention.heads[0]}"
    return f"{layers}, {_mean_of(len(attention.heads), 'head')}"


def _mean_of(number: int, name: str) -> str:
    return f"mean of {number} {name}s"


@dataclass(frozen=True)
class Span:
    """A stretch of one text that one or several tokens stand for, in code points."""

    segment: int
    begin: int
    end: int
    keys: tuple[int, ...]


def spans(attention: Attention) -> list[Span]:
    """Stretches of the texts, in order; tokens that share characters share one.

    Byte-level tokenizers split one sign into several tokens, each of which stands for all of it.
    """
    found: list[Span] = []
    for key, token in enumerate(attention.tokens):
        if token.begin >= token.end:
            continue
        last = found[-1] if found else None
        if last and last.segment == token.segment and token.begin < last.end:
            end = max(last.end, token.end)
            found[-1] = Span(last.segment, last.begin, end, (*last.keys, key))
        else:
            found.append(Span(token.segment, token.begin, token.end, (key,)))
    return found
