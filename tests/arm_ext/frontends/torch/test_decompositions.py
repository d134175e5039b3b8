# SPDX-License-Identifier: Apache-2.0
"""Operators that are taken apart, against torch."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from arm_ext.common.errors import ModelError
from arm_ext.frontends.torch.decompositions import DECOMPOSITIONS
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.torch.compared import compare, imported

NAN, INF = torch.nan, torch.inf


def test_elements():
    def function(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        signs = x.signbit(), n.signbit(), x.copysign(y), n.copysign(y), x.angle(), n.angle()
        edges = x[[3, 0, 1]]
        return (
            *signs,
            x.fmax(y),
            x.fmin(y),
            x.ldexp(n),
            torch.searchsorted(edges, y),
            torch.searchsorted(edges, y, right=True, out_int32=True),
            torch.bucketize(y, edges),
            x.dist(y[:1] * 0, 1),
        )

    x = torch.tensor([0.0, 1.5, NAN, -2.0, -0.0, 3.0, -INF])
    least = torch.tensor([-3, -2, -1, 0, 1, 2, -(2**31)], dtype=torch.int32)
    compare(function, x, torch.tensor([-0.0, NAN, NAN, -3.0, 1.0, 0.5, 2.0]), least)


def test_products():
    def function(x: Tensor, a: Tensor, b: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.addbmm(x, a, b, beta=0.5, alpha=2),
            torch.addmv(x[:, 0], a[0], b[0, :, 0]),
            torch.addmm(n, n, n, beta=2, alpha=3),
            functional.bilinear(a[0], a[1], b[:, :, :4].transpose(1, 2)[:, :, :4]),
            *(torch.cdist(a, a, p=p) for p in (0.0, 3.0)),
        )

    torch.manual_seed(0)
    ints = torch.arange(9).reshape(3, 3)
    compare(function, torch.randn(3, 7), torch.randn(2, 3, 4), torch.randn(2, 4, 7), ints)


def test_numbers_that_have_no_room_in_a_narrower_type():
    def function(x: Tensor, h: Tensor, n: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        sizes = x.hypot(x.flip(0)), h.hypot(h), *(torch.linalg.vector_norm(h[:2], order) for order in (2, 3))
        signs = h.signbit(), x.signbit(), h.copysign(-h), h[None].renorm(2, 0, 1.0)
        return *sizes, *signs, n @ n, torch.bmm(w[None], w[None])

    x = torch.tensor([3e30, 1e-30, INF, 0.0, -0.0, NAN, 2e-30, -4e30])
    n = torch.tensor([[2**30 + 1, -(2**31)], [2**31 - 1, 12345]], dtype=torch.int32)
    compare(
        function,
        x,
        torch.tensor([300.0, -400.0, -NAN, -0.0], dtype=torch.float16),
        n,
        n.to(torch.int64) * 1001,
    )


def test_sums_of_doubles_are_doubles():
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        window = {"stride": 2, "padding": (1, 0)}
        return (
            functional.conv2d(x, w, w[:, 0, 0, 0], **window),
            functional.conv1d(x[:, :, 0], w[:, :, 0]),
            x[0, 0] @ x[0, 1],
        )

    torch.manual_seed(0)
    x, w = torch.randn(1, 3, 6, 6, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
    results = run_on_host(imported(function, x, w).mod, [x.numpy(), w.numpy()])
    for found, wanted in zip(results, function(x, w), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=0, atol=1e-13)


def test_booleans_and_bytes():
    def function(b: Tensor, u: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        columns = torch.stack([b, ~b]).index_add(1, i, b[None, :3].expand(2, 3))
        joined = b.put(i, b[:3], accumulate=True), b.index_add(0, i, b[:3]), columns
        padded = functional.pad(b, (1, 1), value=2)
        return *joined, padded, b.isnan(), b.fmax(~b), b.nansum(), b.signbit(), u.sign()

    b, u = torch.tensor([True, False, True, False, False]), torch.tensor([0, 1, 128, 255], dtype=torch.uint8)
    compare(function, b, u, torch.tensor([1, 1, 3]))


def test_parts_are_replaced_wherever_they_begin():
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x.clone()
        z[:, :2] = y
        ends = (0, 2, 1), (1, 3, 1), (2, 4, 1), (-2, None, 1), (0, 4, 2), (1, 9, 2)
        parts = [x.slice_scatter(y, 1, *part) for part in ends]
        return z, *parts, x.slice_scatter(x * 2, 1), functional.pad(x[None], (-1, 1, 1, 0), mode="circular")

    compare(function, torch.arange(12.0).reshape(3, 4), -torch.arange(6.0).reshape(3, 2))


def test_batch_norms_return_what_torch_saves():
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        known = torch.ones(3), torch.ones(3)
        whole = torch.native_batch_norm(x, None, None, *known, False, 0.1, 1e-5)
        of_halves = (each.half() for each in (x, *known, *known))
        halves = torch.native_batch_norm(*of_halves, False, 0.1, 1e-5)
        return *whole, *halves, *torch.native_batch_norm(y, None, None, None, None, True, 0.1, 1e-5)

    x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
    compare(function, x, x.double())
    with pytest.raises(ModelError, match="its result 1 is read, and only result 0 is supported"):
        imported(lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1], x)


def test_a_sum_with_factor_0_is_not_read_and_integers_take_whole_factors():
    def function(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        wide = x[None], y[None]
        return (
            torch.addmm(x, y, y, beta=0),
            torch.baddbmm(*wide, wide[1], beta=0, alpha=2),
            torch.addbmm(x, wide[1], wide[1], beta=0),
            torch.baddbmm(n, n, n, beta=1.9, alpha=2.9),
            torch.addbmm(n[0], n, n, beta=0.2),
        )

    y = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    compare(
        function, torch.full((3, 3), NAN, dtype=torch.float64), y, torch.arange(18).reshape(2, 3, 3)[:, :, :3]
    )


def test_medians():
    def function(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        middle = *x.median(1), *n.median(0, keepdim=True), x.nanmedian(1)[0], x.nanmedian(), n.median()
        return *middle, x[0].median(), *x.sort(dim=1, descending=True, stable=True)

    x = torch.tensor([[3.0, -1, 5, 0], [NAN, 2, NAN, 1], [NAN, NAN, NAN, NAN]])
    compare(function, x, torch.tensor([[3, 1, 9, 1, 4], [5, 2, 6, 7, 8], [0, 4, 3, 2, 9]]))


def test_what_runs_along_an_axis():
    def function(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        return *x.cummax(1), *n.cummin(0), x.logcumsumexp(1), *x[:1].kthvalue(2, keepdim=True)

    torch.manual_seed(0)
    x = torch.randn(2, 5)
    x[1, 1], x[1, 3] = -INF, NAN
    compare(function, x, torch.tensor([3, 1, 3, 1, 4]))


def test_writes():
    def function(x: Tensor, i: Tensor, s: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        alone = [x.scatter_reduce(1, i, s, r, include_self=False) for r in ("sum", "mean", "amin")]
        alone += [n.scatter_reduce(1, i, n, r, include_self=False) for r in ("prod", "mean", "amax")]
        return (
            *alone,
            x.scatter_reduce(1, i, s, "mean"),
            x.scatter(1, i, s, reduce="add"),
            x.index_reduce(1, i[0], s, "mean"),
            x.masked_scatter(x > 0, s),
            x.diagonal_scatter(s[0, :4], 1),
            x.put(i, s),
        )

    torch.manual_seed(0)
    places = torch.tensor([[0, 2, 0, 2, 1]] * 4)
    compare(function, torch.randn(4, 5), places, torch.randn(4, 5), torch.arange(20).reshape(4, 5))


def test_pools_and_bags():
    def function(x: Tensor, w: Tensor, i: Tensor, offsets: Tensor) -> list[Tensor]:
        bags = [functional.embedding_bag(i, w, offsets, mode=mode) for mode in ("sum", "max")]
        padded = functional.embedding_bag(i, w, offsets, mode="mean", padding_idx=2)
        return [*functional.adaptive_max_pool2d(x, (2, 3), return_indices=True), *bags, padded]

    torch.manual_seed(0)
    compare(
        function,
        torch.randn(1, 4, 5),
        torch.randn(9, 3),
        torch.tensor([1, 2, 2, 8, 0, 5]),
        torch.tensor([0, 2, 2, 5]),
    )


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 1e-2), ("bfloat16", 4e-2), ("float64", 1e-5)])
def test_networks_of_other_types_than_float32(dtype: str, bound: float):
    """Biases of convolutions and products, and norms: upstream computes in float32, and TVM has norms of two types."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.LayerNorm(5)
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(100, 3)).to(getattr(torch, dtype)).eval()

    def function(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        x, n = (v.to(getattr(torch, dtype)) for v in (x, n))
        return model(x).float(), n.argmax(1), n.argmin(), n.max(1)[1], n.topk(2)[1], n.sort(1)[1]

    x, n = torch.randn(2, 3, 7, 7), torch.tensor([[3, -1, 2.5, -7, 0.5]])
    values, *places = run_on_host(imported(function, x, n).mod, [x.numpy(), n.numpy()])
    wanted, *wanted_places = function(x, n)
    np.testing.assert_allclose(values, wanted.detach().numpy(), rtol=0, atol=bound)
    for place, wanted_place in zip(places, wanted_places, strict=True):
        np.testing.assert_array_equal(place, wanted_place.numpy(), strict=True)


def test_booleans():
    def function(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        reduced = [x.scatter_reduce(1, i, ~x, r, include_self=False) for r in ("sum", "amin")]
        return *reduced, x.scatter_add(1, i, x), x.sign(), x.isinf(), x.T

    compare(function, torch.tensor([[True, False, True], [False] * 3]), torch.tensor([[0, 2, 0], [1, 1, 2]]))


def test_copies():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        of_views = torch.permute_copy(x, (1, 0)), torch.view_copy(x, [7, 3]), torch.narrow_copy(x, 1, 2, 3)
        return *of_views, *torch.unbind_copy(x), torch.as_strided(x, [3, 2], [2, 5], 1)

    compare(function, torch.randn(3, 7))
    assert all(operator.namespace == "aten" for operator in DECOMPOSITIONS)
