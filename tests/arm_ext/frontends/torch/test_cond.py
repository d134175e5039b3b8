# SPDX-License-Identifier: Apache-2.0
"""torch.cond against torch."""

import numpy as np
import pytest
import torch
from torch import nn

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import module_runner
from relay_passes.programs.control_flow import split

ROWS, WIDTH = 3, 8


class Choice(nn.Module):
    """Weights in a branch of each kind, one in a branch of a branch, and two values that are chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.then, self.other, self.deep = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))

        def deeper(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.deep(h) * x, h * 3

        def shallow(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return h + x, x.exp()

        def then(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.then(h).relu() + x, x - 1

        def other(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            a, b = torch.cond(x.max() > 1, deeper, shallow, (h, x))
            return self.other(a).exp(), b + 2

        a, b = torch.cond(x.sum() > 0, then, other, (h, x))
        return a * b


@pytest.fixture(scope="module")
def choice() -> tuple[nn.Module, ImportedModel]:
    torch.manual_seed(0)
    module = Choice().eval()
    return module, import_torch(torch.export.export(module, (torch.randn(ROWS, WIDTH),)))


def test_each_branch_computes_what_torch_does(choice: tuple[nn.Module, ImportedModel]):
    module, imported = choice
    run = module_runner(imported.mod)
    for least in (0.5, -0.9, -3.0):
        x = torch.linspace(least, least + 2.5 if least < -1 else least + 1, ROWS * WIDTH).reshape(ROWS, WIDTH)
        if least == -0.9:
            x[0, 0] = 1.5  # the sum stays negative
        (found,) = run([x.numpy()])
        with torch.no_grad():
            np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-5, atol=1e-6)


def test_weights_are_the_branches_own(choice: tuple[nn.Module, ImportedModel]):
    pieces = split(choice[1].mod).pieces
    shapes = [[list(map(int, p.ty.shape.values)) for p in mod["main"].params] for mod in pieces.values()]
    assert all(shape == [ROWS, WIDTH] for params in shapes for shape in params)


class Known(nn.Module):
    """A condition that is a constant of the program."""

    def __init__(self, condition: bool) -> None:
        super().__init__()
        self.register_buffer("condition", torch.tensor(condition))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(self.condition, lambda x: x.sin(), lambda x: x.cos(), (x,))


@pytest.mark.parametrize("condition", [True, False])
def test_known_condition_leaves_no_branch(condition: bool):
    x, module = torch.linspace(-1, 1, 6), Known(condition)
    imported = import_torch(torch.export.export(module, (x,)))
    assert list(split(imported.mod).decisions()) == []
    (found,) = module_runner(imported.mod)([x.numpy()])
    np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-6)
