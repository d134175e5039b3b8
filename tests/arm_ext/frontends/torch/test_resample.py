# SPDX-License-Identifier: Apache-2.0
"""Resizing against torch."""

import pytest
import torch
from torch.nn import functional

from tests.arm_ext.frontends.torch.compared import compare


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_image_becomes_smaller_and_larger(mode: str):
    torch.manual_seed(0)
    compare(
        lambda x: functional.interpolate(x, size=(5, 11), mode=mode, antialias=True), torch.randn(2, 3, 8, 7)
    )


# Bicubic is above; its weights are made in the same way.
@pytest.mark.parametrize(
    "mode", ["nearest", "nearest-exact", "bilinear", pytest.param("bicubic", marks=pytest.mark.long)]
)
def test_sizes_and_factors_that_do_not_divide(mode: str):
    """torch takes the factor that it is given, not the ratio of the sizes: 15 of 9 pixels by 1.7 are not 1.67 times."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        by_size = functional.interpolate(x, size=(13, 5), mode=mode)
        return by_size, functional.interpolate(x, scale_factor=(1.7, 0.6), mode=mode)

    torch.manual_seed(0)
    compare(function, torch.randn(2, 3, 9, 8))
