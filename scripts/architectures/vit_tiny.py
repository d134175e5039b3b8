# SPDX-License-Identifier: Apache-2.0
"""ViT-tiny (arXiv:2012.12877, DeiT-Ti), on patches of 8x8 of a small image."""

import torch
from torch import Tensor, nn

from architectures.blocks import Attention, Residual, feed_forward

WIDTH, HEADS, LAYERS, PATCH, CLASSES = 192, 3, 12, 8, 1000


class VitTiny(nn.Module):
    """Patches and a class token, layers that normalise first, a classifier on the class token."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (side // PATCH) ** 2 + 1, WIDTH))
        layers = [
            Residual(nn.Sequential(nn.LayerNorm(WIDTH), part))
            for _ in range(LAYERS)
            for part in (Attention(WIDTH, HEADS), feed_forward(WIDTH, 4 * WIDTH))
        ]
        self.layers = nn.Sequential(*layers, nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [1, 1000] for an image [1, 3, side, side]."""
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token, patches], 1) + self.positions
        return self.head(self.layers(x)[:, 0])
