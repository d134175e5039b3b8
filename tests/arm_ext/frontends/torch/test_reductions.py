# SPDX-License-Identifier: Apache-2.0
"""Reductions against torch."""

import torch
from torch import Tensor

from tests.arm_ext.frontends.torch.compared import compare


def test_extrema_and_their_places():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.amax((1, 2)), x.amin(0, True), x.amax(), *x.min(1), *x.max(-1, True), (x > 2).any()

    torch.manual_seed(0)
    compare(function, torch.randn(3, 5, 7))
