# SPDX-License-Identifier: Apache-2.0
"""Conformer blocks (arXiv:2005.08100): attention and convolution between two halves of a feed-forward network."""

from torch import Tensor, nn

from architectures.blocks import Attention, feed_forward

WIDTH, HEADS, BLOCKS, KERNEL = 144, 4, 2, 31


class Convolution(nn.Module):
    """The convolution of a block: a gated pointwise one, a depthwise one along time, a pointwise one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.GLU(1))
        self.depthwise = nn.Sequential(
            nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2, groups=WIDTH, bias=False),
            nn.BatchNorm1d(WIDTH),
            nn.SiLU(),
        )
        self.pointwise = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x [1, time, width], in the same shape."""
        return self.pointwise(self.depthwise(self.gate(x.transpose(1, 2)))).transpose(1, 2)


class Block(nn.Module):
    """x + half of each feed-forward network, attention and convolution in between; each part normalises first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (feed_forward(WIDTH, 4 * WIDTH, nn.SiLU) for _ in range(2))
        self.attention, self.convolution = Attention(WIDTH, HEADS), Convolution()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for x [1, time, width], in the same shape."""
        x = x + 0.5 * self.first(self.norms[0](x))
        x = x + self.attention(self.norms[1](x))
        x = x + self.convolution(self.norms[2](x))
        x = x + 0.5 * self.second(self.norms[3](x))
        return self.norms[4](x)


def conformer() -> nn.Module:
    """Return the network: speech features [1, time, 144] to features of the same shape."""
    return nn.Sequential(*(Block() for _ in range(BLOCKS)))
