"""AdamW over the encoder's parameters and the learning rate of each step."""

import math

import torch
from torch import Tensor, nn

from model.training.config import TrainConfig


def make_optimizer(network: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW that decays matrices only: no bias, no norm, no embedding."""
    embeddings = {
        id(module.weight) for module in network.modules() if isinstance(module, nn.Embedding)
    }
    decayed: list[Tensor] = []
    kept: list[Tensor] = []
    for parameter in network.parameters():
        is_matrix = parameter.dim() >= 2 and id(parameter) not in embeddings
        (decayed if is_matrix else kept).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": config.weight_decay},
            {"params": kept, "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        betas=(0.9, config.beta2),
        eps=1e-8,
        fused=True,
    )


def learning_rate(step: int, num_steps: int, config: TrainConfig) -> float:
    """The learning rate of step 0 <= step < num_steps: up linearly, then down to nearly 0."""
    num_warmup = math.ceil(num_steps * config.warmup)
    if step < num_warmup:
        return config.learning_rate * (step + 1) / num_warmup
    left = (num_steps - step) / max(num_steps - num_warmup, 1)  # 1 down to 1 / (steps after)
    if config.schedule == "linear":
        return config.learning_rate * left
    return config.learning_rate * 0.5 * (1.0 - math.cos(math.pi * left))
