# SPDX-License-Identifier: Apache-2.0
"""A U-Net (arXiv:1505.04597) with padded convolutions, batch norm and three levels."""

import itertools

import torch
from torch import Tensor, nn

from architectures.blocks import conv_norm

CHANNELS = (16, 32, 64)
CLASSES = 2


class UNet(nn.Module):
    """Down by max pooling, up by transposed convolutions, each level joined to its counterpart."""

    def __init__(self) -> None:
        super().__init__()
        inner = CHANNELS[::-1]
        self.down = nn.ModuleList(
            _twice(cin, cout) for cin, cout in zip((3, *CHANNELS), CHANNELS, strict=False)
        )
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in itertools.pairwise(inner))
        self.join = nn.ModuleList(_twice(2 * channels, channels) for channels in inner[1:])
        self.head = nn.Conv2d(CHANNELS[0], CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits by class and pixel, [1, 2, h, w], of an image [1, 3, h, w]; h and w are multiples of 4."""
        levels = [self.down[0](x)]
        for down in self.down[1:]:
            levels.append(down(self.pool(levels[-1])))
        y = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat([levels.pop(), up(y)], 1))
        return self.head(y)


def _twice(cin: int, cout: int) -> nn.Sequential:
    return nn.Sequential(conv_norm(cin, cout, 3, act=nn.ReLU), conv_norm(cout, cout, 3, act=nn.ReLU))
