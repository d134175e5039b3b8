# SPDX-License-Identifier: Apache-2.0
"""A float32 convolution or linear layer with constant weights, as a matrix product a group."""

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir

from schedules.composites.transposed_convolution import Geometry
from schedules.composites.workload import Pad, Workload
from schedules.kernels.common.contract import Array, Rejection
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm import implicit_rows as implicit
from schedules.kernels.gemm import transposed_phases
from schedules.kernels.gemm.implicit_rows import Rows
from schedules.kernels.gemm.transposed_phases import Kernels

COMPOSITES = ("arm.conv2d", "arm.linear")
TRANSPOSED = "arm.conv2d_transpose"


@dataclass(frozen=True)
class Product:
    """One matrix product a group.

    Attributes:
        rows: The matrix A of the first group.
        columns: Columns of one group.
        groups: How many.
        group_step: Elements from a row of one group to that of the next.
        pad: Of the data, or None; `rows` lie in data that is padded.
        output: Where the rows of the result lie; None for side by side.
        kernels: See `phases.Part`; none but of a transposed convolution.
    """

    rows: Rows
    columns: int
    groups: int
    group_step: int
    pad: Pad | None
    output: Rows | None = None
    kernels: Kernels = ()

    def __str__(self) -> str:
        groups = f"{self.groups} x " if self.groups > 1 else ""
        return f"{groups}{self.rows.count} x {self.rows.depth} x {self.columns}"

    def target(self, row: ir.Expr) -> ir.Expr:
        """Where row `row` of the result begins."""
        return self.output.offset(row) if self.output else row * (self.groups * self.columns)


def products_of(workload: Workload, kernel: str) -> tuple[Product, ...] | Rejection:
    """Reads a workload of `COMPOSITES`, or a transposed convolution, which is several products.

    Args:
        workload: Any.
        kernel: Who asks, for the rejection.
    """
    if workload.composite != TRANSPOSED:
        product = product_of(workload, kernel)
        return product if isinstance(product, Rejection) else (product,)
    misfit = _misfit(workload)
    if misfit is not None:
        return Rejection(kernel, *misfit)
    x, w = workload.operands
    geometry = Geometry.read(x.shape, w.shape, dict(workload.attributes))
    problem = transposed_phases.problem(geometry)
    if problem is not None:
        return Rejection(kernel, *problem)
    pad = transposed_phases.pad_of(geometry, 0)
    return tuple(
        Product(part.rows, len(part.kernels) * w.shape[0], 1, 0, pad, part.output, part.kernels)
        for part in transposed_phases.parts(geometry)
    )


def product_of(workload: Workload, kernel: str) -> Product | Rejection:
    """Reads a workload of `COMPOSITES`.

    Args:
        workload: Any.
        kernel: Who asks, for the rejection.
    """
    if workload.composite not in COMPOSITES:
        return Rejection(
            kernel, "composite is no float32 product", " or ".join(COMPOSITES), workload.composite
        )
    misfit = _misfit(workload)
    if misfit is not None:
        return Rejection(kernel, *misfit)
    return _linear(workload, kernel) if workload.composite == "arm.linear" else _convolution(workload)


def _misfit(workload: Workload) -> tuple[str, str, str] | None:
    """Why a workload is no product: reason, limit and actual value."""
    x, w = workload.operands
    dtypes = {x.dtype, w.dtype, workload.output_dtype}
    if dtypes != {"float32"}:
        return "dtype is not float32", "float32", ", ".join(sorted(dtypes))
    if w.kind != "constant":
        return "weights are not constant", "constant", w.kind
    unknown = [step.name for step in workload.epilogue if step.name not in epilogue_f32.INSTRUCTIONS]
    if unknown:
        return "a step has no implementation", ", ".join(epilogue_f32.INSTRUCTIONS), unknown[0]
    if math.prod(x.shape) == 0 or math.prod(workload.output_shape) == 0:
        return "a dimension is 0", "1 or more", str(x.shape)
    if workload.composite == "arm.linear":
        return None
    attributes = dict(workload.attributes)
    layouts = (attributes["data_layout"], attributes["kernel_layout"], attributes["out_layout"])
    if layouts not in (("NHWC", "OHWI", "NHWC"), ("NHWC", "OHWI", "")):
        return "layout is not channels-last", "NHWC, OHWI", ", ".join(layouts)
    return None


def pair(workload: Workload, attribute: str) -> tuple[int, int]:
    """A convolution's attribute of two integers."""
    rows, columns = ast.literal_eval(dict(workload.attributes)[attribute])
    return int(rows), int(columns)


def padding(workload: Workload) -> tuple[int, int, int, int]:
    """A convolution's border: top, left, bottom, right."""
    top, left, bottom, right = ast.literal_eval(dict(workload.attributes)["padding"])
    return int(top), int(left), int(bottom), int(right)


def weights_by_group(workload: Workload, constants: Sequence[Array], product: Product) -> Array:
    """The weights as float32 [groups, depth, columns], k in the order of the rows' segments."""
    w = constants[workload.operands[1].index]
    if workload.composite == "arm.linear":
        return w[None]
    if product.kernels:
        return transposed_phases.weights_of(w, product.kernels).T[None]
    return w.reshape(product.groups, product.columns, product.rows.depth).transpose(0, 2, 1)


def bias_of(workload: Workload, constants: Sequence[Array], columns: int) -> Array:
    """The bias, float32 [columns], once again for each run of output channels; zeros if there is none."""
    step = workload.step("bias")
    if step is None or step.operand is None:
        return np.zeros(columns, np.float32)
    bias = constants[step.operand.index].ravel()
    return np.tile(bias, columns // len(bias))


def _linear(workload: Workload, kernel: str) -> Product | Rejection:
    x, w = workload.operands
    if len(w.shape) != 2:
        return Rejection(kernel, "B is batched", "2 dimensions", f"{len(w.shape)} dimensions")
    depth, columns = w.shape
    return Product(implicit.linear(math.prod(x.shape) // depth, depth), columns, 1, 0, None)


def _convolution(workload: Workload) -> Product:
    x, w = workload.operands
    attributes = dict(workload.attributes)
    border, groups = padding(workload), int(attributes["groups"])
    pad = Pad.spatial(border, 0) if any(border) else None
    images, height, width, channels = pad.padded(x.shape) if pad else x.shape
    rows = implicit.convolution(
        (images, height, width, channels),
        (w.shape[1], w.shape[2]),
        pair(workload, "strides"),
        pair(workload, "dilation"),
        groups,
    )
    return Product(rows, w.shape[0] // groups, groups, channels // groups, pad)
