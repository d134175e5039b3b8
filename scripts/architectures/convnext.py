# SPDX-License-Identifier: Apache-2.0
"""A small ConvNeXt (arXiv:2201.03545): patches, two stages of two blocks, a classifier."""

import torch
from torch import Tensor, nn

from architectures.blocks import feed_forward

WIDTHS, BLOCKS, CLASSES = (40, 80), 2, 10


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of an image [1, c, h, w]."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x [1, c, h, w] normalised, in the same shape."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """A 7x7 depthwise convolution, then norm and a feed-forward network with the channels last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.feed = nn.LayerNorm(width), feed_forward(width, 4 * width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for x [1, width, h, w], in the same shape."""
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return x + (self.scale * self.feed(self.norm(y))).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """Return the network: image [1, 3, h, w] to logits [1, 10]."""
    first, second = WIDTHS
    return nn.Sequential(
        *(nn.Conv2d(3, first, 4, 4), ChannelNorm(first)),
        *(Block(first) for _ in range(BLOCKS)),
        *(ChannelNorm(first), nn.Conv2d(first, second, 2, 2)),
        *(Block(second) for _ in range(BLOCKS)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(second), nn.Linear(second, CLASSES)),
    )
