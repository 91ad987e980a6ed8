"""The whole network: packed rows in, logits out, attention on request.

Letters: R rows, T row length, B texts, L layers, H heads, K head size, D hidden, C classes.

Follows the encoder of Vaswani et al. 2017, "Attention Is All You Need" (post-norm, sinusoidal
positions, embeddings scaled by sqrt(D)). Unlike it, a row may hold several texts: a token attends
only to tokens of its own text.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import EncoderConfig


def sinusoidal_positions(length: int, hidden_size: int) -> Tensor:
    """Sine and cosine position table (length, D); Vaswani et al. 2017, section 3.5."""
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    step = torch.arange(0, hidden_size, 2, dtype=torch.float64)  # (D/2,)
    angle = position * torch.exp(step * (-math.log(10000.0) / hidden_size))  # (length, D/2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()  # (length, D)


def attention_bias(sequence_ids: Tensor, causal: bool) -> Tensor:
    """Additive mask (R, 1, T, T): 0 where query and key belong together, a huge negative elsewhere.

    finfo.min and not -inf: a row without any key would turn into NaN. There is none here, since
    padding (id 0) attends to padding.
    """
    seen = sequence_ids[:, None, :, None] == sequence_ids[:, None, None, :]  # (R, 1, T, T)
    if causal:
        column = torch.arange(sequence_ids.shape[1], device=sequence_ids.device)
        seen = seen & (column[:, None] >= column)
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def take_tokens(hidden_states: Tensor, index: Tensor) -> Tensor:
    """The tokens (B, D) at index (B,) of the flattened rows (R, T, D)."""
    return hidden_states.flatten(0, 1).index_select(0, index)


class Embeddings(nn.Module):
    """Token embeddings plus positions."""

    positions: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        # With this spread and the scale below, tokens enter the first layer with unit variance.
        nn.init.normal_(self.tokens.weight, std=config.hidden_size**-0.5)
        table = sinusoidal_positions(config.max_position_embeddings, config.hidden_size)
        self.register_buffer("positions", table, persistent=False)
        self.scale = math.sqrt(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        tokens = self.tokens(input_ids) * self.scale  # (R, T, D)
        positions = F.embedding(position_ids, self.positions)  # (R, T, D)
        return self.dropout(tokens + positions)  # type: ignore[no-any-return]


class SelfAttention(nn.Module):
    """Multi-head attention with one projection for query, key and value."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads, self.head_size = config.num_attention_heads, config.head_size
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = config.dropout

    def forward(
        self,
        hidden_states: Tensor,
        bias: Tensor,
        head_gate: Tensor | None,
        with_probs: bool,
        only: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the context (R, T, D) and, if asked, attention_probs (R, H, T, T).

        With only (B,) the context is that of these tokens, (B, D).
        """
        num_rows, row_length, hidden_size = hidden_states.shape
        heads = self.qkv(hidden_states).view(
            num_rows, row_length, 3 * self.num_heads, self.head_size
        )
        query, key, value = heads.transpose(1, 2).chunk(3, dim=1)  # (R, H, T, K) each
        dropout = self.dropout if self.training else 0.0
        attention_probs = None
        if with_probs:
            attention_scores = query @ key.transpose(-2, -1) * self.head_size**-0.5 + bias
            attention_probs = attention_scores.softmax(-1)  # (R, H, T, T), before dropout
            context = F.dropout(attention_probs, dropout) @ value  # (R, H, T, K)
        else:
            # The fused form is faster but cannot return its weights.
            context = F.scaled_dot_product_attention(query, key, value, bias, dropout)
        if head_gate is not None:
            context = context * head_gate[:, None, None]  # (H, 1, 1): one factor a head
        context = context.transpose(1, 2).reshape(num_rows, row_length, hidden_size)
        if only is not None:
            context = take_tokens(context, only)  # (B, D)
        return self.output(context), attention_probs


class EncoderLayer(nn.Module):
    """Attention, then feed-forward, each added to its input and normalized."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        bias: Tensor,
        head_gate: Tensor | None,
        with_probs: bool,
        only: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        context, attention_probs = self.attention(x, bias, head_gate, with_probs, only)
        if only is not None:
            x = take_tokens(x, only)  # (B, D)
        x = self.attention_norm(x + self.dropout(context))
        x = self.output_norm(x + self.dropout(self.output(F.gelu(self.intermediate(x)))))
        return x, attention_probs


class EncoderClassifier(nn.Module):
    """Encoder, pooling and classifier head."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        sequence_ids: Tensor,
        cls_index: Tensor,
        head_gate: Tensor | None = None,
        with_attentions: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Classifies the texts of packed rows.

        Args:
            input_ids, position_ids, sequence_ids: (R, T) int64, as model.packing makes them.
            cls_index: (B,) int64, each text's first token in the flattened rows.
            head_gate: (L, H), multiplies each head's context; 1 leaves it, 0 switches it off.
            with_attentions: also returns what each token attended to.

        Returns:
            logits (B, C), and attentions (R, L, H, T, T) or None: rows are queries, each sums
            to 1 over the tokens of its own text; softmax before dropout and before head_gate.
        """
        bias = attention_bias(sequence_ids, self.config.causal)
        x = self.embeddings(input_ids, position_ids)  # (R, T, D)
        attentions: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            gate = None if head_gate is None else head_gate[index]
            # Of the last layer only what is read is computed: three quarters of it saved.
            is_read_in_part = self.config.pooling == "first" and layer is self.layers[-1]
            only = cls_index if is_read_in_part else None
            x, attention_probs = layer(x, bias, gate, with_attentions, only)
            if attention_probs is not None:
                attentions.append(attention_probs)
        pooled = x if self.config.pooling == "first" else self.mean(x, sequence_ids, cls_index)
        logits = self.classifier(self.dropout(pooled))  # (B, C) from (B, D)
        return logits, torch.stack(attentions, dim=1) if with_attentions else None

    def mean(self, hidden_states: Tensor, sequence_ids: Tensor, cls_index: Tensor) -> Tensor:
        """Each text's mean over its tokens (B, D), from (R, T, D)."""
        flat = hidden_states.flatten(0, 1)  # (R*T, D)
        # A text is named by its row and its number in the row.
        num_rows, row_length = sequence_ids.shape
        row = torch.arange(num_rows, device=sequence_ids.device)[:, None]
        name = (row * (row_length + 1) + sequence_ids).flatten()  # (R*T,)
        member = (name[cls_index][:, None] == name[None, :]).to(flat.dtype)  # (B, R*T)
        return member @ flat / member.sum(1, keepdim=True)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
