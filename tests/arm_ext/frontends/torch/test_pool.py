# SPDX-License-Identifier: Apache-2.0
"""Pooling against torch."""

import pytest
import torch
from torch.nn import functional

from arm_ext.common.errors import ModelError
from tests.arm_ext.frontends.torch.compared import compare, imported


def test_maxima():
    compare(lambda x: functional.max_pool2d(x, 2, return_indices=True)[0], torch.randn(1, 2, 4, 6))


def test_places_of_maxima_are_refused():
    with pytest.raises(ModelError, match="where the maxima stand"):
        imported(
            lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2),
            torch.randn(1, 2, 4, 6),
        )
