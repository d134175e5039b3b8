# SPDX-License-Identifier: Apache-2.0
"""Reductions against torch."""

from math import inf

import torch
from torch import Tensor

from tests.arm_ext.frontends.torch.compared import compare


def test_extrema_and_their_places():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.amax((1, 2)), x.amin(0, True), x.amax(), *x.min(1), *x.max(-1, True), (x > 2).any()

    torch.manual_seed(0)
    compare(function, torch.randn(3, 5, 7))


def test_norms_of_vectors():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        norm = torch.linalg.vector_norm
        ends = norm(x, inf, (0, 2)), norm(x, -inf, -1, keepdim=True)
        return (
            norm(x, 0, -1),
            *ends,
            norm(x, 1),
            norm(x, 2, 1),
            norm(x, 3),
            norm(x.half(), 0.5, 0, dtype=x.dtype),
        )

    torch.manual_seed(0)
    compare(function, torch.randn(3, 5, 7).relu())
