# SPDX-License-Identifier: Apache-2.0
"""Convolutions and linear layers with constant weights as matrix products, one per group, of any dtype.

`product_float` and `product_s8` say which workloads are products, and what follows the sums.
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
        rows: The matrix A of the first group.
        columns: Number of columns of one group.
        groups: Number of groups.
        group_step: Elements from a row of one group to that of the next.
        pad: Pad of the data, or None; `rows` lie in data that is padded.
        output: Layout of the result's rows; None if they are contiguous.
        kernels: As for `transposed_phases.PhaseConvolution`; only for a transposed convolution.
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
    """Return the product of a linear layer, whose rows are all leading dimensions of the data."""
    depth, columns = workload.operands[-1].shape
    rows = math.prod(workload.operands[0].shape) // depth
    return GemmProduct(implicit.linear(rows, depth), columns, 1, 0, None)


def convolution(workload: Workload, pad: OperandPadding | None) -> GemmProduct:
    """Return the products of a convolution of data with a border `pad`, one per group."""
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
    """Return the products of a transposed convolution, one per phase; the border's value is `zero`."""
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
    """Return why a convolution's layouts are not supported, or None for NHWC and OHWI."""
    layouts = ConvolutionAttributes.of(workload).layouts
    if layouts not in (("NHWC", "OHWI", "NHWC"), ("NHWC", "OHWI", "")):
        return "layout is not channels-last", "NHWC, OHWI", ", ".join(layouts)
    return None


def weights_by_column(workload: Workload, constants: Sequence[Array], product: GemmProduct) -> Array:
    """Return the weights as [groups, columns, depth], with k in the order of the rows' segments."""
    w = constants[workload.operands[-1].index]
    if w.ndim == 2:  # of a linear layer, [depth, columns]
        return np.ascontiguousarray(w.T)[None]
    if product.kernels:
        return transposed_phases.weights_of(w, product.kernels)[None]
    return w.reshape(product.groups, product.columns, product.rows.depth)


def reordered(weights: Array, order: Array) -> Array:
    """Return weights [groups, columns, depth] with k in the order given, zero where it is `NOTHING`."""
    found = weights[..., np.maximum(order, 0)]
    found[..., order == NOTHING] = 0
    return found
