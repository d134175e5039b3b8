# SPDX-License-Identifier: Apache-2.0
"""What a program's translation tells of all that it fails at."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arm_ext.common.errors import ModelError
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.torch.compared import compare, imported


def test_operators_in_branches_are_named_with_the_others():
    def function(x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda x: torch.special.i0(x), lambda x: x * 2, (x,))
        return y + torch.special.i1(x)

    with pytest.raises(ModelError, match=r"2 operator\(s\)(.|\n)*i0(.|\n)*i1"):
        imported(function, torch.randn(3))


def test_all_nodes_that_fail_are_told_at_once():
    def function(x: Tensor) -> Tensor:
        places = nn.functional.max_pool2d(x, 2, return_indices=True)[1]
        return places.sum() + torch.native_layer_norm(x, [4], None, None, 1e-5)[1].sum()

    with pytest.raises(
        ModelError,
        match=r"node 'max_pool2d\S*' (.|\n)*return_indices(.|\n)*node 'native_layer_norm' (.|\n)*deviation",
    ):
        imported(function, torch.randn(1, 2, 4, 4))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: torch.linalg.cholesky(x[0]), r"aten\.linalg_cholesky\.default \(1x\): linalg_cholesky"),
        (lambda x: nn.functional.conv2d(x.long(), x.long()), "'conv2d' .*it is of int64"),
        (
            lambda x: nn.functional.conv_transpose3d(x[None], x[None]),
            "it is a transposed convolution over 3 axes",
        ),
        (
            lambda x: torch.as_strided(x.mT, (2,), (1,)),
            "a form that is not supported; TVM's importer says: Reshape",
        ),
    ],
    ids=["check", "integers", "transposed", "upstream's"],
)
def test_a_refusal_is_a_sentence(function: Callable[[Tensor], Tensor], told: str):
    with pytest.raises(ModelError, match=told):
        imported(function, torch.randn(1, 1, 3, 3))


def test_empty_tensors_are_no_part_of_a_concatenation():
    compare(lambda x: torch.cat([torch.empty(0), x, x[:0], x]), torch.randn(2, 3))


def test_what_follows_from_no_elements_is_torch_s():
    """Statistics of nothing are NaN, sums 0; pools of no samples are no samples."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            x.var(0, unbiased=False),
            x.mean(),
            x.sum(0) + y,
            nn.functional.adaptive_avg_pool1d(x, 2),
            x.T @ x,
        )

    given = (torch.zeros(0, 3), torch.randn(3))
    results = run_on_host(imported(function, *given).mod, [x.numpy() for x in given])
    for found, value in zip(results, function(*given), strict=True):
        np.testing.assert_array_equal(found, value.numpy(), strict=True)


def test_ranges_have_torch_s_lengths():
    def function(x: Tensor) -> Tensor:
        return x[torch.arange(6, -1, -2)] + torch.arange(0.0, 1.0, 0.25)

    compare(function, torch.randn(7))


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (
            lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2),
            ["aten._fft_c2r", "fft_irfft", "aten._fft_r2c", "fft_rfft"],
        ),
        (lambda x: (torch.complex(x, x) * 1j).real, ["aten.complex.default (1x): complex_1", "aten.mul"]),
    ],
)
def test_complex_numbers_are_refused_with_advice(function: Callable[[Tensor], Tensor], refused: list[str]):
    with pytest.raises(ModelError, match="real and imaginary parts in tensors of their own") as caught:
        imported(function, torch.ones(3, 4))
    assert all(part in str(caught.value) for part in refused)


def test_inputs_of_complex_numbers_are_refused_by_name():
    with pytest.raises(ModelError, match=r"'\w+' is of complex64, .*view_as_real"):
        imported(lambda x: x.abs(), torch.ones(3, 4, dtype=torch.complex64))
