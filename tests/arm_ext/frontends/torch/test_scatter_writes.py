# SPDX-License-Identifier: Apache-2.0
"""Writes into a tensor at places known at run time, against torch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arm_ext.common.errors import ModelError
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import run_on_host

DATA = (3, 7, 5)
Write = Callable[[Tensor, Tensor, Tensor], Tensor]
put = torch.ops.aten.index_put.default

# Name → what writes values at an index into the data, the index, and the values' shape.
CASES: dict[str, tuple[Write, object, tuple[int, ...]]] = {
    "one": (lambda x, i, v: put(x, [None, i], v), [4], (3, 1, 5)),
    "from the end": (lambda x, i, v: put(x, [None, i], v), [-2], (3, 1, 5)),
    "scalar": (lambda x, i, v: put(x, [i], v), 2, (7, 5)),
    "several": (lambda x, i, v: put(x, [None, i], v), [6, 0, 3], (5,)),
    "added": (lambda x, i, v: put(x, [None, None, i], v, True), [4, 0, 4], (3, 7, 3)),
    "added to one": (lambda x, i, v: put(x, [i], v, True), [1], (1, 7, 5)),
    "matrix": (lambda x, i, v: put(x, [None, i], v), [[0, 1], [5, -1]], (3, 2, 2, 5)),
    "two axes": (lambda x, i, v: put(x, [i, i + 1], v), [0, 2], (2, 5)),
    "two apart": (lambda x, i, v: put(x, [i, None, i], v), [0, 2], (2, 7)),
    "two behind": (lambda x, i, v: put(x, [None, i[:, None], i], v), [0, 2], (3, 2, 2)),
    "mask": (lambda x, i, v: put(x, [x > i], v), [0], ()),
    "copy": (lambda x, i, v: x.index_copy(1, i, v), [1, 5], (3, 2, 5)),
    "assigned": (lambda x, i, v: _assigned(x, i, v), [3], (3, 1, 5)),
}


def _assigned(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[:, i] = v
    return x


class Writes(nn.Module):
    def __init__(self, *writes: Write) -> None:
        super().__init__()
        self.writes = writes

    def forward(self, x: Tensor, *given: Tensor) -> list[Tensor]:
        return [write(x, i, v) for write, i, v in zip(self.writes, given[::2], given[1::2], strict=True)]


def test_what_torch_writes():
    given = [t for _, index, shape in CASES.values() for t in (torch.tensor(index), torch.randn(shape))]
    inputs = (torch.randn(DATA), *given)
    module = Writes(*(write for write, _, _ in CASES.values()))
    imported = import_torch(torch.export.export(module, inputs))
    found = run_on_host(imported.mod, [value.numpy() for value in inputs])
    for name, ours, wanted in zip(CASES, found, module(*inputs), strict=True):
        # Of two that are added to one place the order is open.
        np.testing.assert_allclose(ours, wanted.numpy(), rtol=0, atol=1e-6 * ("added" in name), err_msg=name)


def test_a_mask_of_some_axes_is_refused():
    inputs = (torch.randn(DATA), torch.tensor([True, False, True]), torch.randn(7, 5))
    program = torch.export.export(Writes(lambda x, i, v: put(x, [i], v)), inputs)
    with pytest.raises(ModelError, match="node 'index_put' cannot be imported: a boolean index"):
        import_torch(program)
