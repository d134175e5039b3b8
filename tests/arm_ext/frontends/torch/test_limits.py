# SPDX-License-Identifier: Apache-2.0
"""Values beyond memory are refused before anything is made of them; torch itself refuses strides of 0 and the like."""

from collections.abc import Callable

import pytest
import torch

from arm_ext.common.errors import ModelError
from tests.arm_ext.frontends.torch.compared import imported

X = torch.ones(2, 3)

CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "expand": (lambda x: x[:, :1, None].expand(2, 2**40, 3), "takes 24 TiB"),
    "repeat": (lambda x: x.repeat(2**30, 2**10), "takes 24 TiB"),
    "pad": (lambda x: torch.nn.functional.pad(x, (0, 2**40)), "takes 8 TiB"),
    "zeros": (lambda x: x.sum() + torch.zeros(2**40), "takes 4 TiB"),
    "arange": (lambda x: x.sum() + torch.arange(2**40), "takes 8 TiB"),
    "eye": (lambda x: x.sum() + torch.eye(2**20), "takes 1 TiB|takes 4 TiB"),
}


@pytest.mark.parametrize("case", CASES)
def test_beyond_limits(case: str):
    function, says = CASES[case]
    with pytest.raises(ModelError, match=says):
        imported(function, X)
