# SPDX-License-Identifier: Apache-2.0
"""Functions of tensors, exported, compiled for this machine and compared with torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import run_on_host

# Sums in another order, and other polynomials for exponentials.
BOUND = 2e-6


class Function(nn.Module):
    """What calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def imported(function: Callable[..., Any], *inputs: Any) -> ImportedModel:
    """Export and import a function with examples of what it takes."""
    return import_torch(torch.export.export(Function(function).eval(), inputs))


def compare(function: Callable[..., Any], *inputs: Any) -> None:
    """Check shapes, types and values of all tensors that a function returns."""
    model = imported(function, *inputs)
    given = [x.numpy() for x in torch.utils._pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    wanted = [
        x.numpy() for x in torch.utils._pytree.tree_leaves(function(*inputs)) if isinstance(x, torch.Tensor)
    ]
    for results in (run_on_host(model.mod, given), model.reference(given)[0]):
        assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in wanted]
        for k, (found, value) in enumerate(zip(results, wanted, strict=True)):
            if value.dtype.kind == "f":
                largest = np.abs(value).max(initial=0, where=np.isfinite(value))
                np.testing.assert_allclose(found, value, rtol=0, atol=BOUND * largest, err_msg=str(k))
            else:
                np.testing.assert_array_equal(found, value, str(k))
