# SPDX-License-Identifier: Apache-2.0
"""Operators element by element against torch."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from arm_ext.common.errors import ModelError
from tests.arm_ext.frontends.torch.compared import compare, imported


def test_values():
    def function(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        shifted = n << 2, n >> 1
        return *shifted, x.exp2(), x.erfc(), x.hypot(y), torch.cdist(x, y), n.clamp(max=3), n.clamp(min=-2)

    torch.manual_seed(0)
    compare(function, torch.randn(3, 7), torch.randn(3, 7), torch.arange(-4, 5))


def test_softplus_is_finite_and_exact_at_both_ends():
    ends = torch.tensor([-300.0, -90.0, -17.0, -1.0, 0.0, 0.5, 89.0, 300.0])
    compare(lambda x: functional.softplus(x, beta=3.0), ends)


def test_quotients_are_rounded_as_asked():
    def function(x: Tensor, n: Tensor) -> list[Tensor]:
        modes = ("floor", "trunc", None)
        return [
            torch.div(v, by, rounding_mode=mode) for v, by in ((x, 0.3), (n, 3), (x, 2)) for mode in modes
        ]

    compare(function, torch.linspace(-5, 5, 9), torch.arange(-9, 9))


def test_other_distances_are_refused():
    with pytest.raises(ModelError, match=r"cdist' cannot be imported: .*p = 1\.0"):
        imported(lambda x: torch.cdist(x, x, p=1.0), torch.randn(3, 2))
