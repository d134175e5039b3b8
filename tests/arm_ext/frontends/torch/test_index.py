# SPDX-License-Identifier: Apache-2.0
"""Indices of tensors against torch."""

import pytest
import torch
from torch import Tensor

from arm_ext.common.errors import ModelError
from tests.arm_ext.frontends.torch.compared import compare, imported


def test_indices_beside_each_other_and_apart():
    def function(x: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, ...]:
        single = x[:, i], x[0, :, i]
        grid = x[i.view(-1, 1), j.view(1, -1)], x[:, :, i.view(3, 1), j.view(1, 3)]
        return *single, *grid, x[:, :, i, j], x[:, j, :, i], x[:, i, j]

    torch.manual_seed(0)
    compare(function, torch.randn(3, 4, 5, 3), torch.tensor([1, 0, -1]), torch.tensor([0, -2, 2]))


def test_a_mask_is_refused():
    with pytest.raises(ModelError, match="a shape that depends on data"):
        imported(lambda x: x[x > 0].sum(), torch.randn(5))
