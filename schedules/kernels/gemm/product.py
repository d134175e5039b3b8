# SPDX-License-Identifier: Apache-2.0
"""Convolutions and linear layers with constant weights as matrix products, one per group, of any dtype.

`product_float` and `product_s8` check which workloads are products, and read their epilogues.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.transposed_convolution import Geometry
from schedules.composites.workload import OperandPadding, Workload
from schedules.kernels.common.contract import Array
from schedules.kernels.gemm import implicit_rows as implicit
from schedules.kernels.gemm import transposed_phases
from schedules.kernels.gemm.implicit_rows import ImplicitRows
from schedules.kernels.gemm.transposed_phases import Kernels

NOTHING = -1
"""Marks an element in an order of k that is multiplied by a weight of zero here: one that occurs twice, or padding."""

Misfit = tuple[str, str, str]
"""Why a workload is no product: reason, limit and actual value."""


@dataclass(frozen=True)
class GemmProduct:
    """A matrix product for each group of a convolution or linear layer.

    Attributes:
        rows: The matrix A of the first group, in the data with its border.
        columns: Number of columns of one group.
        groups: Number of groups.
        group_step: Distance in elements between a row of one group and the same row of the next group.
        pad: Padding of the data; None if there is none.
        output: Layout of the result's rows; None if they are contiguous.
        kernels: See `transposed_phases.PhaseConvolution`; empty unless the product is from a transposed convolution.
    """

    rows: ImplicitRows
    columns: int
    groups: int
    group_step: int
    pad: OperandPadding | None
    output: ImplicitRows | None = None
    kernels: Kernels = ()

    def __str__(self) -> str:
        groups = f"{self.groups} x " if self.groups > 1 else ""
        return f"{groups}{self.rows.count} x {self.rows.depth} x {self.columns}"

    def target(self, row: ir.Expr) -> ir.Expr:
        """Return the offset of the start of row `row` of the result."""
        return self.output.offset(row) if self.output else row * (self.groups * self.columns)

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates in all groups."""
        return self.rows.count * self.columns * self.rows.depth * self.groups


def linear(workload: Workload) -> GemmProduct:
    """Return the product of a linear layer; the leading dimensions of the data become the rows of A."""
    depth, columns = workload.operands[-1].shape
    rows = math.prod(workload.operands[0].shape) // depth
    return GemmProduct(implicit.linear(rows, depth), columns, 1, 0, None)


def convolution(workload: Workload, pad: OperandPadding | None) -> GemmProduct:
    """Return the products (one per group) of a convolution whose data is padded by `pad`."""
    x, w = workload.operands[0], workload.operands[-1]
    window = ConvolutionAttributes.of(workload)
    images, height, width, channels = pad.padded(x.shape) if pad else x.shape
    rows = implicit.convolution(
        (images, height, width, channels),
        (w.shape[1], w.shape[2]),
        window.strides,
        window.dilation,
        window.groups,
    )
    return GemmProduct(rows, w.shape[0] // window.groups, window.groups, channels // window.groups, pad)


def transposed_convolution(workload: Workload, zero: int) -> tuple[GemmProduct, ...] | Misfit:
    """Return the products of a transposed convolution, one per phase, or a rejection; `zero` is the border's value."""
    x, w = workload.operands
    geometry = Geometry.read(x.shape, w.shape, dict(workload.attributes))
    problem = transposed_phases.problem(geometry)
    if problem is not None:
        return problem
    pad = transposed_phases.pad_of(geometry, zero)
    return tuple(
        GemmProduct(part.rows, len(part.kernels) * w.shape[0], 1, 0, pad, part.output, part.kernels)
        for part in transposed_phases.parts(geometry)
    )


def layout_misfit(workload: Workload) -> Misfit | None:
    """Return why a convolution's layouts are not supported; None for NHWC data and OHWI weights."""
    layouts = ConvolutionAttributes.of(workload).layouts
    if layouts not in (("NHWC", "OHWI", "NHWC"), ("NHWC", "OHWI", "")):
        return "layout is not channels-last", "NHWC, OHWI", ", ".join(layouts)
    return None


def weights_by_column(workload: Workload, constants: Sequence[Array], product: GemmProduct) -> Array:
    """Return the weights as [groups, columns, depth], with k in the order of the rows' segments."""
    w = constants[workload.operands[-1].index]
    if w.ndim == 2:  # weights of a linear layer, [depth, columns]
        return np.ascontiguousarray(w.T)[None]
    if product.kernels:
        return transposed_phases.weights_of(w, product.kernels)[None]
    return w.reshape(product.groups, product.columns, product.rows.depth)


def reordered(weights: Array, order: Array) -> Array:
    """Return a copy of weights [groups, columns, depth] with k in the given order, zero where `order` is `NOTHING`."""
    found = weights[..., np.maximum(order, 0)]
    found[..., order == NOTHING] = 0
    return found
