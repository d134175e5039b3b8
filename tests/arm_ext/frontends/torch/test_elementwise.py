# SPDX-License-Identifier: Apache-2.0
"""Operators element by element against torch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from arm_ext.common.errors import ModelError
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.torch.compared import compare, imported


def test_values():
    def function(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        shifted = n << 2, n >> 1
        shifted = *shifted, torch.bitwise_left_shift(n.abs(), n.abs()), torch.bitwise_right_shift(n, 1)
        bounded = n.clamp(max=n + n), x.clamp(y, y + 1), n.clamp(n - n, n + 1)
        return (
            *shifted,
            *bounded,
            *torch.var_mean(x, 1),
            *torch.std_mean(x, keepdim=True),
            x.prod(1),
            x.exp2(),
            x.erfc(),
            x.hypot(y),
            torch.cdist(x, y),
            n.clamp(max=3),
            n.clamp(min=-2),
        )

    torch.manual_seed(0)
    compare(function, torch.randn(3, 7), torch.randn(3, 7), torch.arange(-4, 5))


def test_functions_of_angles_and_hyperbolas():
    def function(x: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        of_all = x.atan(), x.atan2(u), x.asinh(), x.clamp(-3, 3).sinh(), x.clamp(-3, 3).cosh()
        of_few = u.asin(), u.acos(), u.atanh(), u.log1p(), u.expm1(), (1 + u.abs()).acosh(), u.half().asin()
        return *of_all, *of_few, (u * 3).acos(), torch.arange(-3, 4).atan()

    torch.manual_seed(0)
    ends = torch.tensor([0, 1e-7, -1e-4, 1, -1, 50, -1e10, 1e30, torch.inf, -torch.inf, torch.nan])
    compare(
        function,
        torch.cat([ends, torch.randn(20) * 3]),
        torch.cat([torch.rand(24) * 2 - 1, ends[:7].clamp(-1, 1)]),
    )


def test_powers_of_integers_are_exact():
    def function(n: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        return n**k, n**3, 3 ** k.clamp(-2, 63), n.to(torch.uint8) ** 2, n.float() ** 2, n.erfc()

    compare(
        function,
        torch.tensor([-3, -2, -1, -1, 0, 1, 2, 7, 3]),
        torch.tensor([39, 63, -1, 64, 0, 99, 62, -2, 1]),
    )


def test_statistics_of_norms_are_refused():
    with pytest.raises(ModelError, match="'native_layer_norm' cannot be imported: its mean and deviation"):
        imported(lambda x: torch.native_layer_norm(x, [7], None, None, 1e-5)[1], torch.randn(3, 7))


def test_softplus_is_finite_and_exact_at_both_ends():
    ends = torch.tensor([-300.0, -90.0, -17.0, -1.0, 0.0, 0.5, 89.0, 300.0])
    compare(lambda x: functional.softplus(x, beta=3.0), ends)


def test_softplus_is_linear_above_a_threshold():
    compare(lambda x: functional.softplus(x, beta=3.0, threshold=0.2), torch.linspace(-2, 2, 9))


def test_all_factors_count():
    def function(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        sums = torch.add(x, y, alpha=2.5), torch.add(x, 3.0, alpha=0.5), torch.add(n, n, alpha=3)
        differences = torch.sub(x, y, alpha=2.5), torch.rsub(x, y, alpha=2), torch.sub(n, 4, alpha=3)
        return *sums, *differences, functional.selu(x), functional.celu(x, 0.7), functional.elu(x, 0.3)

    torch.manual_seed(0)
    compare(function, torch.randn(3, 7), torch.randn(3, 7), torch.arange(-4, 5))


def test_tensors_without_axes_have_one():
    def function(x: Tensor, place: Tensor) -> tuple[Tensor, ...]:
        alone = x.cumsum(0), x.softmax(-1), x.sum(0, keepdim=True) + 1, x.argmax(), x.logsumexp(0)
        several = *x.sort(0), *x.max(0), *x.topk(1)
        return *alone, *several, x.gather(0, place), x.index_select(0, place), x.unsqueeze(0) * 2

    compare(function, torch.tensor(1.5), torch.tensor(0))


def test_a_variance_of_one_element_is_no_number():
    model = imported(lambda x: torch.var_mean(x, 1), torch.ones(3, 1))
    variance, mean = run_on_host(model.mod, [np.ones((3, 1), np.float32)])
    assert np.isnan(variance).all()
    assert (mean == 1).all()


def test_operators_that_upstream_converts_in_vain_are_refused():
    with pytest.raises(ModelError, match=r"aten\.masked_select\.default \(1x\): masked_select"):
        imported(lambda x: x.masked_select(x > 0), torch.randn(3))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: functional.dropout(x, 0.5), "with p = 0.5 in training mode draws random numbers"),
        (lambda x: torch.bernoulli(x, 0.5), "it draws random numbers"),
        (lambda x: x + torch.randn(7), "it draws random numbers"),
        (lambda x: functional.gumbel_softmax(x), "it draws random numbers"),
    ],
    ids=["dropout", "bernoulli", "randn", "gumbel"],
)
def test_random_numbers_are_refused(function: Callable[[Tensor], Tensor], told: str):
    with pytest.raises(ModelError, match=told):
        imported(function, torch.randn(3, 7))


def test_quotients_are_rounded_as_asked():
    def function(x: Tensor, n: Tensor) -> list[Tensor]:
        modes = ("floor", "trunc", None)
        return [
            torch.div(v, by, rounding_mode=mode) for v, by in ((x, 0.3), (n, 3), (x, 2)) for mode in modes
        ]

    compare(function, torch.linspace(-5, 5, 9), torch.arange(-9, 9))
