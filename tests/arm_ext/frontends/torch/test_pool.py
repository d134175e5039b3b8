# SPDX-License-Identifier: Apache-2.0
"""Pooling against torch."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from arm_ext.common.errors import ModelError
from tests.arm_ext.frontends.torch.compared import compare, imported


def test_maxima():
    compare(lambda x: functional.max_pool2d(x, 2, return_indices=True)[0], torch.randn(1, 2, 4, 6))


def test_places_of_maxima_are_refused():
    with pytest.raises(ModelError, match="return_indices is not supported"):
        imported(
            lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2),
            torch.randn(1, 2, 4, 6),
        )


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_averages_with_a_divisor(ceil_mode: bool):
    def function(x: Tensor, volume: Tensor) -> tuple[Tensor, ...]:
        plane = functional.avg_pool2d(x, 3, 2, 1, ceil_mode, False, 5)
        whole = functional.avg_pool2d((x * 9).to(torch.int64), 3, 2, 1, ceil_mode, True, 2)
        return plane, whole, functional.avg_pool3d(volume, (3, 2, 3), 2, (1, 0, 1), ceil_mode, True, -2)

    torch.manual_seed(0)
    compare(function, torch.randn(1, 3, 8, 9), torch.randn(1, 2, 6, 8, 7))


def test_data_without_a_batch():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        row = x[0]
        lines = (
            functional.avg_pool1d(row, 2),
            functional.max_pool1d(row, 2),
            functional.adaptive_avg_pool1d(row, 3),
        )
        return (
            *(2 * y for y in lines),
            2 * functional.avg_pool2d(x, 2),
            2 * functional.max_pool2d(x, 3, ceil_mode=True),
        )

    compare(function, torch.randn(3, 7, 8))
