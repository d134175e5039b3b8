# SPDX-License-Identifier: Apache-2.0
"""Slices of a torch program that begin at a number out of a tensor."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arm_ext.common.errors import ModelError
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import module_runner, run_on_host

SHAPE, LENGTH = (3, 7, 5), 2


class Places(nn.Module):
    """Reads and writes LENGTH columns of x from `at` on, and a single one."""

    def forward(self, x: Tensor, at: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        i: Any = at.item()
        torch._check(i >= 0)
        torch._check(i + LENGTH < SHAPE[1])
        y, z = x.clone(), x.clone()
        y[:, i : i + LENGTH] = v
        z.narrow(1, i, LENGTH).copy_(v)
        return y, z, x[:, i : i + LENGTH], x.select(1, i)


class FromTheEnd(nn.Module):
    """Reads where a negative number says: of an axis of any length, and of axes of known ones."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x[:, -1], x.select(-2, -SHAPE[1]), x[-1], x[..., -2]


class Begin(nn.Module):
    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        i: Any = at.item()
        torch._check(i >= 0)
        torch._check(i < SHAPE[1])
        return x[:, :i].sum(1)


def test_reads_and_writes_at_a_number():
    x, v = torch.randn(SHAPE), torch.randn(SHAPE[0], LENGTH, SHAPE[2])
    module = Places()
    imported = import_torch(torch.export.export(module, (x, torch.tensor([1]), v)))
    run = module_runner(imported.mod)
    for at in (0, 3):
        inputs = x, torch.tensor([at]), v
        found = run([value.numpy() for value in inputs])
        for ours, wanted in zip(found, module(*inputs), strict=True):
            np.testing.assert_array_equal(ours, wanted.numpy())


def test_negative_places_count_from_the_end():
    x = torch.randn(SHAPE)
    length = torch.export.Dim("length", min=SHAPE[1])
    program = torch.export.export(FromTheEnd(), (torch.randn(3, 9, 5),), dynamic_shapes=({1: length},))
    found = run_on_host(import_torch(program, {"x": SHAPE}).mod, [x.numpy()])
    for ours, wanted in zip(found, FromTheEnd()(x), strict=True):
        np.testing.assert_array_equal(ours, wanted.numpy())


def test_a_length_out_of_a_tensor_is_refused():
    program = torch.export.export(Begin(), (torch.randn(SHAPE), torch.tensor([3])))
    with pytest.raises(
        ModelError, match=r"slice.* cannot be imported: the length of a slice depends on data"
    ):
        import_torch(program)
