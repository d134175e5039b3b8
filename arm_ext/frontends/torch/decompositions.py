# SPDX-License-Identifier: Apache-2.0
"""Decompositions of torch operators without a converter into other operators.

A function here computes what its operator does with operators of torch for which there are converters. It gets the
operator's arguments, and returns NotImplemented for a form that has a converter.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._decomp import decomposition_table

_aten = torch.ops.aten


def _weighted(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Return x * beta + product * alpha. Factors of integers lose their fractions; x is not read if beta is 0."""
    if not x.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (x if beta == 1 else x * beta) + scaled


def _addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _weighted(x, torch.bmm(a, b).sum(0), beta, alpha)


def _added(multiply: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return the decomposition of addmm or baddbmm for dtypes other than float32, in which TVM's importer computes."""

    def sum_of(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
        return NotImplemented if x.dtype == torch.float32 else _weighted(x, multiply(a, b), beta, alpha)

    return sum_of


def _of_channels(values: Tensor | None, x: Tensor) -> Tensor | None:
    """Return one value per channel in a shape that broadcasts to channels-first data."""
    return None if values is None else values.reshape(-1, *[1] * (x.dim() - 2))


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *others: Any) -> Any:
    """Add the bias in a separate step for dtypes other than float32, in which TVM's importer adds it."""
    if bias is None or x.dtype == torch.float32:
        return NotImplemented
    return _aten.convolution(x, weight, None, *others) + _of_channels(bias, x)


def _sign(x: Tensor) -> Any:
    return x.clone() if x.dtype == torch.bool else NotImplemented


def _isnan(x: Tensor) -> Any:
    return NotImplemented if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


def _isinf(x: Tensor) -> Any:
    return NotImplemented if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    return x.to(torch.int32).scatter_add(dim, index, source.to(torch.int32)).to(torch.bool)


def _index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    if x.dtype != torch.bool or not accumulate:
        return NotImplemented
    # Tensor.index_put does not accept None for an axis.
    return _aten.index_put(x.to(torch.int32), indices, values.to(torch.int32), accumulate).to(torch.bool)


def _constant_pad(x: Tensor, pad: list[int], value: float = 0) -> Any:
    is_true = x.dtype == torch.bool and value not in (0, 1)
    return _aten.constant_pad_nd(x, pad, 1) if is_true else NotImplemented


# Dtypes for which TVM has normalisation operators.
_NORMED = (torch.float32, torch.float16)


def _normalized(x: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return normalised data, the mean, and the reciprocal of the standard deviation."""
    wide = x.to(torch.float32) if x.dtype == torch.bfloat16 else x
    variance, mean = torch.var_mean(wide, axes, correction=0, keepdim=True)
    factor = torch.rsqrt(variance + eps)
    return (wide - mean) * factor, mean, factor


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    x = x if weight is None else x * weight
    return (x if bias is None else x + bias).to(dtype)


def _layer_norm(x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    if x.dtype in _NORMED:
        return NotImplemented
    result, mean, factor = _normalized(x, list(range(-len(shape), 0)), eps)
    return _scaled(result, weight, bias, x.dtype), mean.to(x.dtype), factor.to(x.dtype)


def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    samples: int,
    channels: int,
    elements: int,
    groups: int,
    eps: float,
) -> Any:
    if x.dtype in _NORMED:
        return NotImplemented
    grouped = x.reshape(samples, groups, channels // groups * elements)
    result, mean, factor = _normalized(grouped, [-1], eps)
    weight, bias = (_of_channels(v, x) for v in (weight, bias))
    saved = (each.squeeze(-1).to(x.dtype) for each in (mean, factor))
    return _scaled(result.reshape(x.shape), weight, bias, x.dtype), *saved


def _instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    if x.dtype in _NORMED or not use_input_stats:
        return NotImplemented
    result, _, _ = _normalized(x, list(range(2, x.dim())), eps)
    return _scaled(result, _of_channels(weight, x), _of_channels(bias, x), x.dtype)


def _batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    if x.dtype in _NORMED:
        return NotImplemented
    result, mean, factor = _normalized(x, [axis for axis in range(x.dim()) if axis != 1], eps)
    scaled = _scaled(result, _of_channels(weight, x), _of_channels(bias, x), x.dtype)
    return scaled, mean.reshape(-1).to(x.dtype), factor.reshape(-1).to(x.dtype)


def _as_strided(x: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None) -> Any:
    """Gather the elements by index from contiguous data."""
    if not x.is_contiguous():
        return NotImplemented
    places = torch.full((), storage_offset or 0, dtype=torch.int64)
    for count, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(count) * step
    return x.reshape(-1)[places]


def _angle(x: Tensor) -> Any:
    """Return the angles of real numbers: 0, or pi if negative, or NaN."""
    if x.is_complex():
        return NotImplemented
    return torch.where(x < 0, math.pi, torch.where(x.isnan(), x, 0.0)).to(torch.result_type(x, 1.0))


def _copysign(x: Tensor, sign: Tensor) -> Tensor:
    size = x.to(torch.result_type(x, 1.0)).abs()
    return torch.where(sign.signbit(), -size, size)


def _ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """Return x * 2**exponent as three products, since x's dtype may not be able to represent 2**exponent."""
    if exponent.is_floating_point():
        return x * torch.pow(2.0, exponent)
    x = x.to(torch.result_type(x, 1.0))
    most = round(-math.log2(torch.finfo(x.dtype).smallest_normal))
    rest = exponent.to(torch.int64).clamp(-3 * most, 3 * most)
    for _ in range(3):
        step = rest.clamp(-most, most)
        x, rest = x * torch.pow(2.0, step.to(x.dtype)), rest - step
    return x


def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.maximum(x, y)))


def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.minimum(x, y)))


def _cdist(x: Tensor, y: Tensor, p: float, mode: int | None) -> Any:
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def _trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    for axes, k in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for axis in sorted(axes):
            a, b, c = (x.unsqueeze(axis) if n == k else x for n, x in enumerate((a, b, c)))
    product = a * b * c
    return product.sum(sumdim) if sumdim else product


def _shifted(x: Tensor, step: int, dim: int, fill: Tensor) -> Tensor:
    """Return data shifted by `step` elements along an axis; the first `step` elements are `fill`."""
    kept = x.narrow(dim, 0, x.shape[dim] - step)
    return torch.cat([fill.expand_as(x.narrow(dim, 0, step)), kept], dim)


def _running(better: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
    """Return the decomposition of cummax or cummin, in steps that double the number of compared elements."""

    def extremes(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if not x.dim():
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        dim, count = dim % x.dim(), x.shape[dim]
        sizes = [count if axis == dim else 1 for axis in range(x.dim())]
        values, places = x, torch.arange(count, device=x.device).reshape(sizes).expand_as(x)
        for step in (1 << k for k in range((count - 1).bit_length())):
            first = x.narrow(dim, 0, 1), torch.zeros((), dtype=torch.int64, device=x.device)
            before, at = (
                _shifted(y, step, dim, fill) for y, fill in zip((values, places), first, strict=True)
            )
            # Among equal elements the last one counts, and NaN precedes all numbers.
            is_earlier = better(before, values)
            if x.is_floating_point():
                is_earlier = (is_earlier & ~values.isnan()) | (before.isnan() & ~values.isnan())
            values, places = torch.where(is_earlier, before, values), torch.where(is_earlier, at, places)
        return values, places

    return extremes


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    if not x.dim():
        return x.clone()
    none = torch.full((), -math.inf, dtype=x.dtype, device=x.device)
    for step in (1 << k for k in range((x.shape[dim] - 1).bit_length())):
        x = torch.logaddexp(x, _shifted(x, step, dim, none))
    return x


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    found = tuple(torch.sort(x, dim=dim))
    if not x.dim():
        return found[0], found[1]
    values, places = (y.narrow(dim, k - 1, 1) if keepdim else y.select(dim, k - 1) for y in found)
    return values, places


def _sort(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim, descending)  # which is stable here


def _median(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower of the two middle elements and its index; the first NaN if there is one."""
    return _middle(x, dim, keepdim, ignores_nan=False)


def _nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _middle(x, dim, keepdim, ignores_nan=True)


def _middle(x: Tensor, dim: int, keepdim: bool, ignores_nan: bool) -> tuple[Tensor, Tensor]:
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    count = x.shape[dim]
    values, places = torch.sort(x, dim)  # a NaN is last
    middle = torch.full(
        [1 if axis == dim % x.dim() else n for axis, n in enumerate(x.shape)], (count - 1) // 2
    )
    if x.is_floating_point():
        numbers = x.isnan().logical_not().sum(dim, keepdim=True)
        among = (numbers - 1).clamp(min=0) // 2
        middle = among if ignores_nan else torch.where(numbers == count, middle, numbers)
    found = values.gather(dim, middle), places.gather(dim, middle)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _whole_median(x: Tensor) -> Tensor:
    return _median(x.reshape(-1), 0)[0]


def _whole_nanmedian(x: Tensor) -> Tensor:
    return _nanmedian(x.reshape(-1), 0)[0]


def _searchsorted(
    boundaries: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Count, for each value, the sorted boundaries below it (with `right`, not above it); NaN is above all numbers."""
    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    edges, values = boundaries.unsqueeze(-2), x.unsqueeze(-1)
    above = edges > values if right or side == "right" else edges >= values
    return above.logical_not().sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _searchsorted(
        boundaries.expand(*x.shape, -1), x.unsqueeze(-1), out_int32=out_int32, right=right
    ).squeeze(-1)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    x, mask = x.expand(shape), mask.expand(shape)
    places = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(min=0)
    return torch.where(mask, source.reshape(-1)[places].reshape(x.shape), x)


def _diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    moved, count = x.movedim((dim1, dim2), (0, 1)), torch.arange(source.shape[-1], device=x.device)
    places = count + max(-offset, 0), count + max(offset, 0)
    return moved.index_put(places, source.movedim(-1, 0)).movedim((0, 1), (dim1, dim2))


def _put(x: Tensor, places: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    index = (places.reshape(-1),)
    return x.reshape(-1).index_put(index, source.reshape(-1), accumulate).reshape(x.shape)


def _neutral(dtype: torch.dtype, reduce: str) -> float:
    """Return the neutral element of a reduction."""
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    if dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Replace `include_self=False` by neutral initial values, and means by sums and counts."""
    if x.dtype == torch.bool:
        bits, others = x.to(torch.int32), source.to(torch.int32)
        return bits.scatter_reduce(dim, index, others, reduce, include_self=include_self).to(torch.bool)
    if include_self and reduce != "mean":
        return NotImplemented
    start = x if include_self else x.scatter(dim, index, _neutral(x.dtype, reduce))
    if reduce != "mean":
        return start.scatter_reduce(dim, index, source, reduce)
    total = start.scatter_reduce(dim, index, source, "sum")
    ones = torch.ones_like(x, dtype=torch.int64)
    written = (ones if include_self else ones.scatter(dim, index, 0)).scatter_reduce(
        dim, index, torch.ones_like(source, dtype=torch.int64), "sum"
    )
    if x.is_floating_point():
        return total / written.to(x.dtype)
    return torch.div(total, written.to(x.dtype), rounding_mode="floor")


def _scatter_with(x: Tensor, dim: int, index: Tensor, source: Tensor, *, reduce: str) -> Tensor:
    return x.scatter_reduce(dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    sizes = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    places = index.reshape(sizes).expand_as(source)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def _adaptive_max_pool(x: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Return the windows' maxima and their indices, by reducing one axis after the other, the last axis first."""
    rank = len(sizes)
    shape = x.shape[-rank:]
    places = torch.arange(math.prod(shape), device=x.device).reshape(shape).expand_as(x)
    for axis in range(-1, -rank - 1, -1):
        given, asked = x.shape[axis], sizes[axis]
        parts = []
        for k in range(asked):
            first = k * given // asked
            window = -(-(k + 1) * given // asked) - first
            values, at = x.narrow(axis, first, window).max(axis, keepdim=True)
            parts.append((values, places.narrow(axis, first, window).gather(axis, at)))
        x, places = (torch.cat(found, axis) for found in zip(*parts, strict=True))
    return x, places


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sum (mode 0), average (1) or take the maximum (2) of the rows of each bag; a bag's rows begin at its offset."""
    bags = offsets.shape[0] - include_last_offset
    starts = offsets[:bags].unsqueeze(0)
    bag = (starts <= torch.arange(indices.shape[0], device=weight.device).unsqueeze(1)).sum(1) - 1
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    counted = torch.ones_like(indices) if padding_idx < 0 else (indices != padding_idx).to(indices.dtype)
    counts = torch.zeros(bags, dtype=indices.dtype, device=weight.device).scatter_add(0, bag, counted)
    member = counted.unsqueeze(1) > 0
    empty = weight.new_zeros(bags, weight.shape[1])
    places = bag.unsqueeze(1).expand_as(rows)
    if mode == 2:
        low = torch.full_like(empty, -math.inf)
        found = low.scatter_reduce(0, places, torch.where(member, rows, -math.inf), "amax")
        found = torch.where(counts.unsqueeze(1) > 0, found, 0.0)
    else:
        found = empty.scatter_add(0, places, torch.where(member, rows, 0.0))
        if mode == 1:
            found = found / counts.clamp(min=1).unsqueeze(1)
    return found, bag, counts, counts


_WRITTEN: dict[Any, Callable[..., Any]] = {
    _aten.addbmm.default: _addbmm,
    _aten.addmm.default: _added(torch.mm),
    _aten.baddbmm.default: _added(torch.bmm),
    _aten.convolution.default: _convolution,
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_group_norm.default: _group_norm,
    _aten.instance_norm.default: _instance_norm,
    _aten._native_batch_norm_legit.no_stats: _batch_norm,
    _aten.as_strided.default: _as_strided,
    _aten.angle.default: _angle,
    _aten.sign.default: _sign,
    _aten.isinf.default: _isinf,
    _aten.isnan.default: _isnan,
    _aten.scatter_add.default: _scatter_add,
    _aten.copysign.Tensor: _copysign,
    _aten.ldexp.Tensor: _ldexp,
    _aten.fmax.default: _fmax,
    _aten.fmin.default: _fmin,
    _aten._cdist_forward.default: _cdist,
    _aten._trilinear.default: _trilinear,
    _aten.cummax.default: _running(torch.gt),
    _aten.cummin.default: _running(torch.lt),
    _aten.logcumsumexp.default: _logcumsumexp,
    _aten.kthvalue.default: _kthvalue,
    _aten.sort.stable: _sort,
    _aten.median.default: _whole_median,
    _aten.median.dim: _median,
    _aten.nanmedian.default: _whole_nanmedian,
    _aten.nanmedian.dim: _nanmedian,
    _aten.searchsorted.Tensor: _searchsorted,
    _aten.bucketize.Tensor: _bucketize,
    _aten.masked_scatter.default: _masked_scatter,
    _aten.diagonal_scatter.default: _diagonal_scatter,
    _aten.constant_pad_nd.default: _constant_pad,
    _aten.put.default: _put,
    _aten.index_put.default: _index_put,
    _aten.scatter_reduce.two: _scatter_reduce,
    _aten.scatter.reduce: _scatter_with,
    _aten.index_reduce.default: _index_reduce,
    _aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    _aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    _aten._embedding_bag_forward_only.default: _embedding_bag,
    _aten._embedding_bag.default: _embedding_bag,
}
# Decompositions that torch has outside of its default table.
_TORCH_S = (
    _aten.addmv.default,
    _aten.as_strided_copy.default,
    _aten.dist.default,
    _aten.narrow_copy.default,
    _aten.permute_copy.default,
    _aten.unbind_copy.int,
    _aten.view_copy.default,
)
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **{operator: decomposition_table[operator] for operator in _TORCH_S},
    **_WRITTEN,
}
