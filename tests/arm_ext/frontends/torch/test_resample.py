# SPDX-License-Identifier: Apache-2.0
"""Resizing with antialiasing against torch."""

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
