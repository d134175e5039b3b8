# SPDX-License-Identifier: Apache-2.0
"""Operands of several types against torch."""

import torch
from torch import Tensor

from tests.arm_ext.frontends.torch.compared import compare

NUMBERS = torch.tensor([[-9, -4, 0, 3], [8, 5, -1, 2]])
FLAGS = torch.tensor([[True, False, True, False], [False, False, True, True]])


def test_integers_become_floats_where_torch_makes_them():
    def function(n: Tensor) -> tuple[Tensor, ...]:
        return n * 0.5, n / 2, n / 4.0, n.sin(), n > 0.5, 2.0**n, n.float() // 2, n.sum(1), n.clamp(min=0.5)

    compare(function, NUMBERS)


def test_booleans_are_counted_and_multiplied():
    def function(b: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        sums = b.sum(), b.cumsum(1), b.any(), b.all(), b.any(1)
        return (
            *sums,
            b * b[0],
            b + b[0],
            b * n,
            b + n,
            b * 2.5,
            b & (n > 0),
            torch.where(b, n, 1.5),
            n.logical_not(),
        )

    compare(function, FLAGS, NUMBERS)


def test_the_graphs_of_branches_are_cast_too():
    def function(n: Tensor) -> Tensor:
        return torch.cond(n.sum() > 0, lambda n: n * 0.5, lambda n: n / 4, (n,))

    compare(function, NUMBERS)
    compare(function, NUMBERS - 9)
