"""What a server answers, as plain frozen records."""

from dataclasses import dataclass, field

from heedful.attention import Attention
from heedful.records import LabelScore, Timings, TruncationLoss
from heedful.tokens import Token


@dataclass(frozen=True)
class Classification:
    """The answer to one input.

    Attributes:
        labels: by falling probability.
        tokens: what the model read; empty unless tokens or attention were asked for.
        truncated: what was cut off, or None if nothing was.
        attention: the weights, or None if they were not asked for.
        timings: of the request that brought this answer, shared by all its inputs.
        model: name of the model that answered.
        version: its version.
        backend: the engine, "onnxruntime" or "torch".
        precision: numbers it computed with, as "float32".
        cached: whether the server had kept it from an earlier request of the same tokens.
    """

    labels: tuple[LabelScore, ...]
    tokens: tuple[Token, ...] = field(repr=False)
    truncated: TruncationLoss | None
    attention: Attention | None = field(repr=False, compare=False)
    timings: Timings = field(repr=False, compare=False)
    model: str
    version: str
    backend: str
    precision: str
    cached: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        """The most probable label."""
        return self.labels[0].label

    @property
    def probability(self) -> float:
        """The most probable label's probability."""
        return self.labels[0].probability

    def __repr__(self) -> str:
        scores = ", ".join(f"{score.label} {score.probability:.3f}" for score in self.labels[:5])
        more = f", and {len(self.labels) - 5} more" if len(self.labels) > 5 else ""
        cut = f", lost {self.truncated.lost_tokens} tokens" if self.truncated else ""
        seen = f", {self.attention!r}" if self.attention is not None else ""
        engine = f"{self.model} {self.version} on {self.backend} {self.precision}"
        return f"<Classification {scores}{more}{cut}{seen}; {engine}>"


@dataclass(frozen=True, slots=True)
class Tokenization:
    """How the model splits one input, and what truncation took away or None."""

    tokens: tuple[Token, ...]
    truncated: TruncationLoss | None


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of one model, and where it stands.

    Attributes:
        state: "loading", "ready", "draining" or "failed".
        reason: what is wrong, in a sentence; empty if nothing is.
        is_default: whether callers get it who name the model and no version.
        backend, device, precision: as in ModelInfo; empty while there is no engine.
    """

    model: str
    version: str
    state: str
    reason: str
    is_default: bool
    backend: str
    device: str
    precision: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A served model, its limits and what its backend can do.

    Attributes:
        model: the model's name.
        version: the first digits of its weights' sha256.
        created: when the bundle was made: UTC, ISO 8601.
        labels: names of the classes, in the order of their index.
        problem_type: "single_label" or "multi_label".
        max_tokens: longest input in tokens, special tokens included.
        max_inputs: most inputs in one request.
        max_attention_bytes: most bytes of attention in one answer.
        backend: "onnxruntime" or "torch".
        device: where it runs, as "cpu" or "cuda:0".
        precision: numbers it computes with, as "float32".
        attention: whether it can answer attention.
    """

    model: str
    version: str
    created: str
    labels: tuple[str, ...]
    problem_type: str
    max_tokens: int
    max_inputs: int
    max_attention_bytes: int
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    backend: str
    device: str
    precision: str
    attention: bool
