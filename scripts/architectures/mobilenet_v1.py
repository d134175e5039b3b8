# SPDX-License-Identifier: Apache-2.0
"""MobileNet (arXiv:1704.04861, table 1) of a quarter of the channels, as MLPerf Tiny has it for persons in images."""

from torch import nn

from architectures.blocks import conv_norm

# output channels, and strides of the depthwise convolutions, of the whole width
STAGES = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
WIDTH = 4
CLASSES = 2


def mobilenet_v1() -> nn.Module:
    """Return the network: image [1, 3, h, w] to logits [1, 2]."""
    cin = 32 // WIDTH
    layers: list[nn.Module] = [conv_norm(3, cin, 3, stride=2, act=nn.ReLU6)]
    for channels, stride in STAGES:
        cout = channels // WIDTH
        layers.append(conv_norm(cin, cin, 3, stride=stride, groups=cin, act=nn.ReLU6))
        layers.append(conv_norm(cin, cout, 1, act=nn.ReLU6))
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, CLASSES))
