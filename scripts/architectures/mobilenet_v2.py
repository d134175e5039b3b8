# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 (arXiv:1801.04381, table 2)."""

from torch import nn

from architectures.blocks import Residual, conv_norm

# expansion, output channels, blocks, stride of the first
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
CLASSES = 1000


def mobilenet_v2() -> nn.Module:
    """Return the network: image [1, 3, h, w] to logits [1, 1000]."""
    layers: list[nn.Module] = [conv_norm(3, 32, 3, stride=2, act=nn.ReLU6)]
    cin = 32
    for expansion, cout, blocks, first in STAGES:
        for stride in (first, *[1] * (blocks - 1)):
            block = _inverted_residual(cin, cout, expansion, stride)
            layers.append(Residual(block) if stride == 1 and cin == cout else block)
            cin = cout
    layers += [conv_norm(cin, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, CLASSES))


def _inverted_residual(cin: int, cout: int, expansion: int, stride: int) -> nn.Sequential:
    hidden = cin * expansion
    expand = [conv_norm(cin, hidden, 1, act=nn.ReLU6)] if expansion != 1 else []
    depthwise = conv_norm(hidden, hidden, 3, stride=stride, groups=hidden, act=nn.ReLU6)
    return nn.Sequential(*expand, depthwise, conv_norm(hidden, cout, 1))
