"""The options of training, checked when they are given."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

from model.config import PRESETS, EncoderConfig, Pooling
from model.tokenizer import TokenizerKind, Truncation

Schedule = Literal["cosine", "linear"]
Metric = Literal["accuracy", "macro_f1"]
Precision = Literal["auto", "on", "off"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """How texts become tokens.

    Attributes:
        tokenizer: wordpiece, bpe or words, learned from the training texts.
        vocab_size: at most so many tokens, special tokens included.
        max_tokens: longest text the classifier will ever take, special tokens included.
        truncation: what happens to longer texts in training and evaluation; counted, never silent.
    """

    tokenizer: TokenizerKind = "wordpiece"
    vocab_size: int = 16000
    max_tokens: int = 256
    truncation: Truncation = "head_tail"

    def __post_init__(self) -> None:
        _one_of("tokenizer", self.tokenizer, TokenizerKind)
        _one_of("truncation", self.truncation, Truncation)
        _whole("vocab_size", self.vocab_size, 5)
        _whole("max_tokens", self.max_tokens, 5)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The encoder's shape as far as it is chosen before the data is seen.

    Attributes:
        preset: tiny, small or base.
        dropout: in [0, 1); None is the preset's.
        pooling: first token or mean.
        overrides: EncoderConfig fields that differ from the preset.
    """

    preset: str = "tiny"
    dropout: float | None = None
    pooling: Pooling = "first"
    overrides: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {self.preset!r}")
        _one_of("pooling", self.pooling, Pooling)
        self.encoder_config(vocab_size=1, num_labels=1, max_tokens=1)

    def encoder_config(self, *, vocab_size: int, num_labels: int, max_tokens: int) -> EncoderConfig:
        """The whole shape, once the data is known; a ValueError if it is impossible."""
        dropout = {} if self.dropout is None else {"dropout": self.dropout}
        return EncoderConfig(
            vocab_size=vocab_size,
            num_labels=num_labels,
            max_position_embeddings=max_tokens,
            pooling=self.pooling,
            **{**PRESETS[self.preset], **dropout, **self.overrides},
        )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the network learns.

    Attributes:
        epochs: passes over the training texts, unless stopped early.
        tokens_per_batch: real tokens computed at once; a longer text still goes, alone.
        accumulation_steps: batches whose gradients make one step of the optimizer.
        learning_rate: the highest, reached at the end of the warm-up.
        weight_decay: on matrices; never on biases, norms and embeddings.
        beta2: of AdamW.
        warmup: share of all steps in which the learning rate rises.
        schedule: how it falls afterwards, to 0.
        clip_norm: the longest gradient; 0 leaves it.
        label_smoothing: share of the target spread over all classes.
        word_dropout: share of input tokens hidden behind the unknown token in training.
        patience: epochs without a better validation before training stops; 0 never stops.
        metric: what "better" means on validation.
        seed: of weights, order, dropout.
        bf16: bfloat16 autocast; auto means on a GPU.
        device: cpu or cuda.
        checkpoint_steps: steps between checkpoints within an epoch; 0 only at its end.
    """

    epochs: int = 10
    tokens_per_batch: int = 1024
    accumulation_steps: int = 1
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    beta2: float = 0.98
    warmup: float = 0.1
    schedule: Schedule = "cosine"
    clip_norm: float = 1.0
    label_smoothing: float = 0.1
    word_dropout: float = 0.3
    patience: int = 4
    metric: Metric = "accuracy"
    seed: int = 13
    bf16: Precision = "auto"
    device: Device = "cpu"
    checkpoint_steps: int = 500

    def __post_init__(self) -> None:
        for name in ("epochs", "tokens_per_batch", "accumulation_steps"):
            _whole(name, getattr(self, name), 1)
        for name in ("patience", "seed", "checkpoint_steps"):
            _whole(name, getattr(self, name), 0)
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, got {self.seed}")
        for name in ("weight_decay", "clip_norm"):
            _between(name, getattr(self, name), 0.0, float("inf"))
        for name in ("beta2", "warmup", "label_smoothing", "word_dropout"):
            _between(name, getattr(self, name), 0.0, 1.0)
        if not 0.0 < self.learning_rate < 1.0:
            raise ValueError(f"learning_rate must be in (0, 1), got {self.learning_rate}")
        _one_of("schedule", self.schedule, Schedule)
        _one_of("metric", self.metric, Metric)
        _one_of("bf16", self.bf16, Precision)
        _one_of("device", self.device, Device)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**{item.name: values[item.name] for item in fields(cls)})


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value < high:
        raise ValueError(f"{name} must be in [{low}, {high}), got {value!r}")


def _one_of(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")
