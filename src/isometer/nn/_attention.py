"""Self-attention as a torch module."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from isometer.simulate._attention import attend
from isometer.spec import Attention

Tensor = torch.Tensor


class SelfAttention(nn.Module):
    """Multi-head self-attention of `(samples, features, positions)`, as an executed step says.

    Example:
        >>> step = Attention(heads=2, head_width=4, key_heads=2, causal=True)
        >>> SelfAttention(step, 8)(torch.ones(3, 8, 5)).shape
        torch.Size([3, 8, 5])
    """

    def __init__(self, step: Attention, width: int, *, dtype: torch.dtype | None = None, device: Any = None) -> None:
        super().__init__()
        assert step.head_width is not None
        assert step.key_heads is not None
        inner, keyed = step.heads * step.head_width, step.key_heads * step.head_width

        def weights(fan_in: int, fan_out: int) -> nn.Linear:
            # without torch's own initialisation, which draws from the global generator
            made = nn.Linear(fan_in, fan_out, bias=False, dtype=dtype, device="meta")
            made = made.to_empty(device="cpu" if device is None else device)
            nn.init.zeros_(made.weight)
            return made

        self.step = step
        self.query, self.key, self.value = weights(width, inner), weights(width, keyed), weights(width, keyed)
        self.output = weights(inner, width)

    def extra_repr(self) -> str:
        return f"heads={self.step.heads}, causal={self.step.causal}"

    def forward(self, x: Tensor) -> Tensor:
        rows = x.mT  # (samples, T, features); samples stand where slots do
        heads = attend(self.step, self.query(rows), self.key(rows), self.value(rows), x.shape[-1])
        found: Tensor = self.output(heads.value)
        return found.mT
