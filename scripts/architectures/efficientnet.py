# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-B0 (arXiv:1905.11946, table 1): inverted residuals with squeeze and excitation."""

from torch import Tensor, nn

from architectures.blocks import Residual, conv_norm

# expansion, output channels, blocks, stride of the first, kernel
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
SQUEEZE = 4  # of the block's input channels
CLASSES = 1000


class SqueezeExcite(nn.Module):
    """Multiplies each channel by a number between 0 and 1, which is computed from the means of all channels."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x [1, channels, h, w] scaled, in the same shape."""
        return x * self.gate(x)


def efficientnet_b0() -> nn.Module:
    """Return the network: image [1, 3, h, w] to logits [1, 1000]."""
    layers: list[nn.Module] = [conv_norm(3, 32, 3, stride=2, act=nn.SiLU)]
    cin = 32
    for expansion, cout, blocks, first, kernel in STAGES:
        for stride in (first, *[1] * (blocks - 1)):
            block = _block(cin, cout, expansion, stride, kernel)
            layers.append(Residual(block) if stride == 1 and cin == cout else block)
            cin = cout
    layers += [conv_norm(cin, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, CLASSES))


def _block(cin: int, cout: int, expansion: int, stride: int, kernel: int) -> nn.Sequential:
    hidden = cin * expansion
    expand = [conv_norm(cin, hidden, 1, act=nn.SiLU)] if expansion != 1 else []
    return nn.Sequential(
        *expand,
        conv_norm(hidden, hidden, kernel, stride=stride, groups=hidden, act=nn.SiLU),
        SqueezeExcite(hidden, cin // SQUEEZE),
        conv_norm(hidden, cout, 1),
    )
