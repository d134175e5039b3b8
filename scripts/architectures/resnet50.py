# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 (arXiv:1512.03385, table 1), with the stride in the 3x3 convolution as torchvision has it."""

from torch import Tensor, nn

from architectures.blocks import conv_norm

# bottleneck channels, blocks, stride of the first
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4
CLASSES = 1000


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1, and a shortcut that is a convolution where shapes differ."""

    def __init__(self, cin: int, hidden: int, stride: int) -> None:
        super().__init__()
        cout = hidden * EXPANSION
        self.body = nn.Sequential(
            conv_norm(cin, hidden, 1, act=nn.ReLU),
            conv_norm(hidden, hidden, 3, stride=stride, act=nn.ReLU),
            conv_norm(hidden, cout, 1),
        )
        same = stride == 1 and cin == cout
        self.shortcut = nn.Identity() if same else conv_norm(cin, cout, 1, stride=stride)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return [1, 4 * hidden, h / stride, w / stride] for x [1, cin, h, w]."""
        return self.act(self.body(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    """Return the network: image [1, 3, h, w] to logits [1, 1000]."""
    layers: list[nn.Module] = [conv_norm(3, 64, 7, stride=2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for hidden, blocks, first in STAGES:
        for stride in (first, *[1] * (blocks - 1)):
            layers.append(Bottleneck(cin, hidden, stride))
            cin = hidden * EXPANSION
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, CLASSES))
