# SPDX-License-Identifier: Apache-2.0
"""DS-CNN for keywords (arXiv:1711.07128), as MLPerf Tiny has it."""

from torch import nn

from architectures.blocks import conv_norm

CHANNELS, BLOCKS, CLASSES = 64, 4, 12


def dscnn() -> nn.Module:
    """Return the network: features of a second of speech [1, 1, 49, 10] to logits [1, 12]."""
    first = nn.Conv2d(1, CHANNELS, (10, 4), (2, 2), (5, 1), bias=False)
    layers: list[nn.Module] = [first, nn.BatchNorm2d(CHANNELS), nn.ReLU()]
    for _ in range(BLOCKS):
        layers.append(conv_norm(CHANNELS, CHANNELS, 3, groups=CHANNELS, act=nn.ReLU))
        layers.append(conv_norm(CHANNELS, CHANNELS, 1, act=nn.ReLU))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, CLASSES))
