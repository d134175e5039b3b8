# SPDX-License-Identifier: Apache-2.0
"""A detector in the manner of YOLOv8: blocks that split and join, pyramid pooling, a neck that resizes."""

import torch
from torch import Tensor, nn

from architectures.blocks import Residual, conv_norm

WIDTHS = (16, 32, 64, 128)
CLASSES, BOX = 7, 4


def _conv(cin: int, cout: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return conv_norm(cin, cout, kernel, stride=stride, act=nn.SiLU)


class SplitJoin(nn.Module):
    """Half of the channels go through a bottleneck, and all halves are concatenated."""

    def __init__(self, cin: int, cout: int, *, residual: bool) -> None:
        super().__init__()
        half = cout // 2
        body = nn.Sequential(_conv(half, half, 3), _conv(half, half, 3))
        self.first, self.last = _conv(cin, cout, 1), _conv(3 * half, cout, 1)
        self.body = Residual(body) if residual else body

    def forward(self, x: Tensor) -> Tensor:
        """Return [1, cout, h, w] for x [1, cin, h, w]."""
        left, right = self.first(x).chunk(2, 1)
        return self.last(torch.cat([left, right, self.body(right)], 1))


class PyramidPool(nn.Module):
    """Maxima of 5, 9 and 13 neighbours, by three poolings in a row."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.first, self.last = _conv(channels, half, 1), _conv(4 * half, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x [1, channels, h, w], in the same shape."""
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """Detector on two scales, of strides 8 and 16."""

    def __init__(self) -> None:
        super().__init__()
        a, b, c, d = WIDTHS
        self.stem = nn.Sequential(_conv(3, a, 3, 2), _conv(a, b, 3, 2), SplitJoin(b, b, residual=True))
        self.fine = nn.Sequential(_conv(b, c, 3, 2), SplitJoin(c, c, residual=True))
        self.coarse = nn.Sequential(_conv(c, d, 3, 2), SplitJoin(d, d, residual=True), PyramidPool(d))
        self.resize = nn.Upsample(scale_factor=2, mode="nearest")
        self.up = SplitJoin(c + d, c, residual=False)
        self.reduce = _conv(c, c, 3, 2)
        self.down = SplitJoin(c + d, d, residual=False)
        self.heads = nn.ModuleList(nn.Conv2d(width, BOX + CLASSES, 1) for width in (c, d))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return boxes [1, n, 4] and scores [1, n, 7] of an image [1, 3, h, w], for its n = hw/64 + hw/256 cells."""
        fine = self.fine(self.stem(x))
        coarse = self.coarse(fine)
        fine = self.up(torch.cat([self.resize(coarse), fine], 1))
        coarse = self.down(torch.cat([self.reduce(fine), coarse], 1))
        cells = [head(level).flatten(2) for head, level in zip(self.heads, (fine, coarse), strict=True)]
        boxes, scores = torch.cat(cells, 2).transpose(1, 2).split([BOX, CLASSES], 2)
        return boxes, torch.sigmoid(scores)
