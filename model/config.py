"""The shape of one encoder classifier, as it travels in a bundle's config.json."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from model.errors import BundleError

Pooling = Literal["first", "mean"]

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "dropout": 0.2,
    },
    "small": {
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "dropout": 0.2,
    },
    "base": {
        "hidden_size": 512,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "intermediate_size": 2048,
        "dropout": 0.1,
    },
}


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes and switches of the encoder.

    Attributes:
        vocab_size: number of token ids, 0 to vocab_size - 1.
        num_labels: number of classes, C.
        max_position_embeddings: longest text in tokens, special tokens included.
        pooling: what the classifier reads: the text's first token or the mean of its tokens.
        causal: look-ahead mask: a token attends to itself and to what stands before it.
        dropout: probability in training, on embeddings, attention, context and feed-forward.
    """

    vocab_size: int
    num_labels: int
    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    max_position_embeddings: int = 512
    dropout: float = 0.1
    layer_norm_eps: float = 1e-5
    pooling: Pooling = "first"
    causal: bool = False
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "num_labels",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} cannot be shared among "
                f"{self.num_attention_heads} heads: choose a multiple"
            )
        if self.hidden_size % 2:
            raise ValueError(
                f"hidden_size must be even for sinusoidal positions, got {self.hidden_size}"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        if not self.layer_norm_eps > 0.0:
            raise ValueError(f"layer_norm_eps must be positive, got {self.layer_norm_eps}")
        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling must be one of {get_args(Pooling)}, got {self.pooling!r}")
        if self.causal and self.pooling == "first":
            raise ValueError("a look-ahead mask hides the text from its first token: use mean")
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is not in the vocabulary")

    @property
    def head_size(self) -> int:
        """Width of one attention head, K."""
        return self.hidden_size // self.num_attention_heads

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads config.json; unknown or impossible values are a BundleError."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise BundleError(f"config.json is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise BundleError("config.json must hold one JSON object")
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise BundleError(f"config.json has unknown fields {unknown}: made by a newer heedful?")
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise BundleError(f"config.json: {error}") from None
