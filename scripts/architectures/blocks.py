# SPDX-License-Identifier: Apache-2.0
"""Blocks that several architectures share."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def conv_norm(
    cin: int, cout: int, kernel: int, *, stride: int = 1, groups: int = 1, act: Activation = nn.Identity
) -> nn.Sequential:
    """Return a convolution that keeps the size but for its stride, batch norm and an activation."""
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), act())


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum for x of any shape that `body` keeps."""
        return x + self.body(x)


class Attention(nn.Module):
    """Multi-head self-attention, written out as exporters see it in transformer libraries."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return attention for x [1, tokens, width], with the mask added to the scores, [1, heads, tokens, tokens]."""
        query, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) * self.scale
        if mask is not None:
            scores = scores + mask
        mixed = torch.softmax(scores, -1) @ value
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def _split(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        return x.reshape(batch, tokens, self.heads, width // self.heads).transpose(1, 2)


def feed_forward(width: int, hidden: int, act: Activation = nn.GELU) -> nn.Sequential:
    """Return a linear layer, an activation and another linear layer."""
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, width))
