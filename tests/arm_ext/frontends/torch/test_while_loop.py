# SPDX-License-Identifier: Apache-2.0
"""torch.while_loop against torch."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import module_runner
from relay_passes.programs.control_flow import split

WIDTH = 7


class Loops(nn.Module):
    """A loop with weights that ends by its count or its state, and in it a choice and another loop."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        beside = x.exp()

        def more(i: Tensor, y: Tensor) -> Tensor:
            return (i < 4) & (y.sum() < 40)

        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.cond(y.sum() > 0, self.a, self.b, (y,)) + self.c(beside)
            zero = torch.zeros((), dtype=torch.int64)
            j, y = torch.while_loop(lambda j, _: j < 2, lambda j, y: (j + 1, y * 1.5), (zero, y))
            return i + 1, y + j

        i, y = torch.while_loop(more, body, (torch.tensor(0), x))
        return y, i


@pytest.fixture(scope="module")
def loops() -> tuple[nn.Module, ImportedModel]:
    torch.manual_seed(0)
    module = Loops().eval()
    return module, import_torch(torch.export.export(module, (torch.randn(WIDTH),)))


def test_rounds_are_those_of_torch(loops: tuple[nn.Module, ImportedModel]):
    module, imported = loops
    run = module_runner(imported.mod)
    for value in (0.5, -2.0, 6.0, 0.0):
        x = torch.linspace(value, value + 1, WIDTH)
        found, rounds = run([x.numpy()])
        with torch.no_grad():
            wanted, count = module(x)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)
        assert rounds == count.numpy()


def test_weights_are_the_rounds_own(loops: tuple[nn.Module, ImportedModel]):
    program = split(loops[1].mod)
    shapes = [
        list(map(int, p.ty.shape.values)) for mod in program.pieces.values() for p in mod["main"].params
    ]
    assert [WIDTH, WIDTH] not in shapes
    assert sorted(decision.is_loop for decision in program.decisions()) == [False, True, True]
