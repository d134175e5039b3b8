# SPDX-License-Identifier: Apache-2.0
"""Writes to places, windows and samples against torch."""

import torch
from torch import Tensor
from torch.nn import functional

from tests.arm_ext.frontends.torch.compared import compare


def test_values_are_written_and_added():
    def function(x: Tensor, i: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        return (
            x.scatter_add(1, i, s),
            x.scatter_reduce(1, i, s, "amax"),
            x.select_scatter(s[:, 0], 1, -1),
        )

    torch.manual_seed(0)
    compare(function, torch.randn(3, 5), torch.tensor([[0, 0], [2, 2], [4, 0]]), torch.randn(3, 2))


def test_windows():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.unfold(1, 3, 2), x.unfold(-1, 4, 1), functional.unfold(x, 3, padding=1)

    compare(function, torch.arange(84.0).reshape(1, 3, 4, 7))


def test_samples_of_images():
    def function(x: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
        border = functional.grid_sample(x, grid, "nearest", "border", align_corners=True)
        return functional.grid_sample(x, grid, align_corners=False), border

    torch.manual_seed(0)
    compare(function, torch.randn(2, 3, 5, 4), torch.rand(2, 3, 7, 2) * 2.4 - 1.2)
