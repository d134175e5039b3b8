# SPDX-License-Identifier: Apache-2.0
"""Control flow that is nested too deep or has no end is refused, and the rest is not."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_ROUNDS
from arm_ext.frontends.torch import control_limits
from arm_ext.frontends.torch.export import export_module
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import host_runner

X = torch.ones(4)


class Wrapped(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def program(function: Callable[[Tensor], Tensor]) -> torch.export.ExportedProgram:
    return torch.export.export(Wrapped(function), (X,))


def conds(depth: int) -> Callable[[Tensor], Tensor]:
    if depth == 0:
        return torch.sin
    inner = conds(depth - 1)
    return lambda x: torch.cond(x.sum() > depth, inner, torch.cos, (x,))


def counting(
    first: int, more: Callable[[Tensor], Tensor], step: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    def loop(x: Tensor) -> Tensor:
        start = torch.full((), first, dtype=torch.int64)
        _, y = torch.while_loop(lambda i, y: more(i), lambda i, y: (step(i), y * 1.5), (start, x))
        return y

    return loop


def test_branches_inside_each_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_limits, "MOST_NESTED", 4)
    control_limits.check_control_flow(program(conds(4)), {})
    with pytest.raises(ModelError, match=r"^cond node 'cond' has branches and loops nested at least 5 deep"):
        import_torch(program(conds(5)))


def test_more_of_them_than_torch_exports():
    with pytest.raises(ModelError, match="recursion"):
        export_module(Wrapped(conds(64)).eval(), (X,))


@pytest.mark.parametrize(
    "loop",
    [
        counting(0, lambda i: i < 2**62, lambda i: i + 1),
        counting(5, lambda i: i >= -(2**40), lambda i: i - 3),
        counting(0, lambda i: (i >= 0) & (i < 2**62), lambda i: i + 1),
        counting(0, lambda i: i < MOST_ROUNDS + 1, lambda i: i + 1),
    ],
    ids=["up", "down", "between", "one more"],
)
def test_a_loop_of_more_rounds_than_can_be_run(loop: Callable[[Tensor], Tensor]):
    with pytest.raises(
        ModelError, match=f"^while_loop node 'while_loop': it has more than {MOST_ROUNDS} iterations"
    ):
        import_torch(program(loop))


def test_a_loop_whose_condition_is_always_true():
    def loop(x: Tensor) -> Tensor:
        (y,) = torch.while_loop(lambda y: torch.ones((), dtype=torch.bool), lambda y: (y * 1.5,), (x,))
        return y

    with pytest.raises(ModelError, match=r"its condition is always true: it never ends"):
        import_torch(program(loop))


@pytest.mark.parametrize(
    "loop",
    [
        counting(0, lambda i: i < MOST_ROUNDS, lambda i: i + 1),
        counting(2**62 - 10, lambda i: i < 2**62, lambda i: i + 1),
        counting(0, lambda i: i < 2**62, lambda i: i * 2 + 1),
        counting(0, lambda i: i != 7, lambda i: i + 1),
    ],
    ids=["as many as can be", "few from far", "not by a constant step", "not a bound"],
)
def test_a_loop_of_fewer(loop: Callable[[Tensor], Tensor]):
    control_limits.check_control_flow(program(loop), {})


def test_operators_that_map_and_scan_are_refused_by_name():
    from torch._higher_order_ops.map import map as map_

    with pytest.raises(ModelError, match=r"map_impl"):
        import_torch(program(lambda x: map_(lambda row: row.sin(), x)))


def test_a_scan_is_refused_by_name():
    from torch._higher_order_ops.scan import scan

    with pytest.raises(ModelError, match=r"scan \(1x\): scan"):
        import_torch(program(lambda x: scan(lambda c, row: (c + row, c * row), x[0] * 0, x, dim=0)[1]))


@pytest.mark.parametrize("size", [1, 9, *(pytest.param(size, marks=pytest.mark.long) for size in (7, 31))])
def test_an_associative_scan_is_computed(size: int):
    from torch._higher_order_ops.associative_scan import associative_scan

    def sums(x: Tensor) -> Tensor:
        return associative_scan(lambda a, b: a * 0.5 + b * 0.25, x, dim=0, combine_mode="generic")

    x = torch.linspace(-1, 1, size * 3).reshape(size, 3)
    (found,) = host_runner(import_torch(torch.export.export(Wrapped(sums), (x,))))([x.numpy()])
    # The factors are powers of two: a fused multiply-add gives what torch does.
    np.testing.assert_array_equal(found, sums(x).numpy())
