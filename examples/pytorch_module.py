# SPDX-License-Identifier: Apache-2.0
"""Compile a PyTorch module for a Raspberry Pi 5 as it is, and compare a board's outputs with PyTorch's.

    python examples/pytorch_module.py
    python examples/pytorch_module.py --board 192.168.0.7:9090

Needs `pip install -e '.[torch]'`.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn

import arm_ext

# Of max|reference|: a sum of 72 float32 products in another order.
BOUND = 1e-5


class Net(nn.Module):
    """A residual block and a classifier."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.stem(x)
        x = torch.relu(x + self.body(x))
        return self.head(x.mean((2, 3)))


def main() -> None:
    """Compile, run, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="raspberry-pi-5")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(1, 3, 16, 16)
    with tempfile.TemporaryDirectory() as folder:
        result = arm_ext.compile(net, args.target, Path(folder, "net.armpkg"), example_inputs={"x": x})
        print("kernels:", result.report.summary())  # noqa: T201
        (scores,) = arm_ext.run(result, args.board, inputs={"x": x.numpy()}).outputs.values()
    with torch.no_grad():
        expected = net(x).numpy()
    distance = abs(scores - expected).max() / abs(expected).max()
    print(f"largest difference to PyTorch: {distance:.1e} of the largest score")  # noqa: T201
    if distance > BOUND:
        raise SystemExit(f"more than {BOUND}")


if __name__ == "__main__":
    main()
