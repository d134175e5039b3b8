# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.arm_ext.frontends.torch.compared import compare


@pytest.mark.parametrize("additive", [False, True])
def test_a_row_that_sees_nothing_is_zero(additive: bool) -> None:
    """As torch has it, where a softmax of nothing is 0 / 0; masks of a program, and those that it is given."""
    keys = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    keys[1, 0, 2] = False
    mask = torch.zeros(keys.shape).masked_fill(~keys, -torch.inf) if additive else keys

    def function(x: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        attention = functional.scaled_dot_product_attention
        return attention(x, x, x, attn_mask=given), attention(x, x, x, attn_mask=mask)

    compare(function, torch.randn(2, 3, 5, 4), mask)
