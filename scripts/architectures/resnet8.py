# SPDX-License-Identifier: Apache-2.0
"""ResNet-8 for images of 32 x 32 (arXiv:1512.03385), as MLPerf Tiny has it for CIFAR-10."""

from torch import Tensor, nn

from architectures.blocks import conv_norm

# channels, stride of each residual block
BLOCKS = ((16, 1), (32, 2), (64, 2))
CLASSES = 10


class Basic(nn.Module):
    """Two convolutions of 3x3, and a shortcut that is a convolution where shapes differ."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(cin, cout, 3, stride=stride, act=nn.ReLU), conv_norm(cout, cout, 3)
        )
        same = stride == 1 and cin == cout
        self.shortcut = nn.Identity() if same else conv_norm(cin, cout, 1, stride=stride)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return [1, cout, h / stride, w / stride] for x [1, cin, h, w]."""
        return self.act(self.body(x) + self.shortcut(x))


def resnet8(channels: int = 3) -> nn.Module:
    """Return the network: image [1, channels, 32, 32] to logits [1, 10]."""
    cin = BLOCKS[0][0]
    layers: list[nn.Module] = [conv_norm(channels, cin, 3, act=nn.ReLU)]
    for cout, stride in BLOCKS:
        layers.append(Basic(cin, cout, stride))
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, CLASSES))
