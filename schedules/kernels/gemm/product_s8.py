# SPDX-License-Identifier: Apache-2.0
"""What the int8 kernels share: a convolution or linear layer as a matrix product, and what follows it.

A workload's integers are the graph's own: accumulators of int8 weights and 8-bit data, plus an offset a column (bias
and zero points), requantised. uint8 data is read as int8 with its top bit flipped, data - 128, and the difference
joins the offset.
"""

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from tvm import ir, tirx

from schedules.composites.transposed_convolution import Geometry
from schedules.composites.workload import Pad, Workload
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, Rejection
from schedules.kernels.common.cost_model import VECTOR, Cost, arithmetic, scalar
from schedules.kernels.epilogues import requantize_step, residual_s8, row_scales
from schedules.kernels.epilogues.requantize import MAGIC_BITS, NOT_REQUANTIZED, Form, Requantization
from schedules.kernels.epilogues.residual_s8 import Residual
from schedules.kernels.epilogues.row_scales import DYNAMIC, RowScales
from schedules.kernels.gemm import implicit_rows as implicit
from schedules.kernels.gemm import transposed_phases
from schedules.kernels.gemm.implicit_rows import Rows
from schedules.kernels.gemm.transposed_phases import Kernels

LINEAR = "arm.linear_s8"
COMPOSITES = ("arm.conv2d_s8", LINEAR)
TRANSPOSED = "arm.conv2d_transpose_s8"


def misfit_of(workload: Workload) -> tuple[str, str, str] | None:
    """Why a workload is no product: reason, limit and actual value."""
    x, w = workload.operands
    requantize, offset = workload.step("requantize"), workload.step("offset")
    misfit = requantize_step.misfit(workload)
    if misfit is not None or requantize is None:
        return misfit
    if x.dtype not in ("int8", "uint8") or w.dtype != "int8":
        return "operands are not of 8 bits", "int8 or uint8 by int8", f"{x.dtype} by {w.dtype}"
    if w.kind != "constant":
        return "weights are not constant", "constant", w.kind
    if x.axes or w.axes:
        return "an operand is permuted", "its own order", str(x.axes or w.axes)
    unknown = [s.name for s in workload.epilogue if s.name not in ("offset", "requantize")]
    if unknown:
        return "a step has no implementation", "offset, requantize", ", ".join(unknown)
    if math.prod(x.shape) == 0 or math.prod(workload.output_shape) == 0:
        return "a dimension is 0", "1 or more", str(x.shape)
    for operand in (requantize.operand, offset.operand if offset else None):
        if operand is not None and math.prod(operand.shape) not in (1, *operand.shape[-1:]):
            return "a constant is not by column", "one axis, the last", str(operand.shape)
    if workload.composite == LINEAR:
        return None if len(w.shape) == 2 else ("weights are batched", "2 dimensions", str(w.shape))
    if workload.composite == TRANSPOSED:
        return None
    attributes = dict(workload.attributes)
    layouts = (attributes["data_layout"], attributes["kernel_layout"], attributes["out_layout"])
    if layouts not in (("NHWC", "OHWI", "NHWC"), ("NHWC", "OHWI", "")):
        return "layout is not channels-last", "NHWC, OHWI", ", ".join(layouts)
    if workload.pad and any(ast.literal_eval(attributes["padding"])):
        return "data is padded twice", "once", attributes["padding"]
    return None


FLIP = 128
"""What flipping the top bit of uint8 subtracts, seen as int8."""


@dataclass(frozen=True)
class Product:
    """One matrix product a group, and its output.

    Attributes:
        rows: The matrix A of the first group; that of group g begins `rows.depth`-wise further.
        columns: Columns of one group.
        groups: How many.
        data: Shape of the data, padded where `pad` says so.
        pad: Of the data, or None.
        flipped: Whether the data is uint8.
        to: The output's quantisation.
        form: How it is requantised.
        output: Where the rows of the result lie; None for side by side.
        kernels: See `phases.Part`; none but of a transposed convolution.
        residual: What is added to the outputs.
        dynamic: How sums of data that were quantised at run time become float32, in place of a requantisation.
        fused: Whether panels whose columns are all proven are requantised in the fused form.
    """

    rows: Rows
    columns: int
    groups: int
    data: tuple[int, ...]
    pad: Pad | None
    flipped: bool
    to: Requantization
    form: Form
    output: Rows | None = None
    kernels: Kernels = ()
    fused: bool = False
    residual: Residual | None = None
    dynamic: RowScales | None = None

    def __str__(self) -> str:
        groups = f"{self.groups} x " if self.groups > 1 else ""
        return f"{groups}{self.rows.count} x {self.rows.depth} x {self.columns}"

    def target(self, row: ir.Expr) -> ir.Expr:
        """Where row `row` of the result begins."""
        return self.output.offset(row) if self.output else row * (self.groups * self.columns)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups."""
        return self.rows.count * self.columns * self.rows.depth * self.groups

    def group_offset(self) -> int:
        """Elements from a row of one group to that of the next."""
        return self.rows.depth // self.taps

    @property
    def taps(self) -> int:
        """How many pixels a row's k run over."""
        return max(1, self.rows.depth * self.groups // self.data[-1])


@lru_cache(1024)  # each tile's estimate reads its workload
def products_of(workload: Workload, kernel: str) -> tuple[Product, ...] | Rejection:
    """Reads a workload of `COMPOSITES`, or a transposed convolution, which is several products; with its residual.

    Args:
        workload: Any.
        kernel: Who asks, for the rejection.
    """
    parts = residual_s8.separate(workload)
    if parts is not None:
        return _with_residual(workload, *parts, kernel)
    if workload.composite != TRANSPOSED:
        product = product_of(workload, kernel)
        return product if isinstance(product, Rejection) else (product,)
    misfit = misfit_of(workload)
    if misfit is not None:
        return Rejection(kernel, *misfit)
    x, w = workload.operands
    attributes = dict(workload.attributes)
    geometry = Geometry.read(x.shape, w.shape, attributes)
    problem = transposed_phases.problem(geometry)
    if problem is not None:
        return Rejection(kernel, *problem)
    # With the border that stands for 0, the zero point's share is the same for all outputs of a phase.
    pad = transposed_phases.pad_of(geometry, int(attributes["x_zero"]))
    shape, how = pad.padded(x.shape) if pad else x.shape, requantize_step.quantization(workload)
    return tuple(
        Product(
            part.rows,
            len(part.kernels) * w.shape[0],
            1,
            shape,
            pad,
            x.dtype == "uint8",
            *how,
            part.output,
            part.kernels,
        )
        for part in transposed_phases.parts(geometry)
    )


def _with_residual(
    workload: Workload, alone: Workload, total: Workload, kernel: str
) -> tuple[Product, ...] | Rejection:
    products = products_of(alone, kernel)
    if isinstance(products, Rejection):
        return products
    residual = residual_s8.residual_of(workload, total)
    if not isinstance(residual, Residual):
        return Rejection(kernel, *residual)
    return tuple(replace(product, residual=residual) for product in products)


def product_of(workload: Workload, kernel: str) -> Product | Rejection:
    """Reads a workload of `COMPOSITES`.

    Args:
        workload: Any.
        kernel: Who asks, for the rejection.
    """
    if workload.composite == DYNAMIC:
        return _dynamic(workload, kernel)
    if workload.composite not in COMPOSITES:
        return Rejection(
            kernel, "composite is no integer product", " or ".join(COMPOSITES), workload.composite
        )
    misfit = misfit_of(workload)
    if misfit is not None:
        return Rejection(kernel, *misfit)
    x, w = workload.operands
    flipped = x.dtype == "uint8"
    to, form = requantize_step.quantization(workload)
    fused = form == "biased" and workload.magnitude is not None and workload.magnitude.fused
    if workload.composite == LINEAR:
        depth, columns = w.shape
        data = (math.prod(x.shape) // depth, depth)
        return Product(implicit.linear(*data), columns, 1, data, None, flipped, to, form, fused=fused)
    attributes = dict(workload.attributes)
    padding = ast.literal_eval(attributes["padding"])
    pad = workload.pad or (Pad.spatial(padding, 0) if any(padding) else None)
    groups = int(attributes["groups"])
    images, height, width, channels = pad.padded(x.shape) if pad else x.shape
    shape = (images, height, width, channels)
    kernel_size = (w.shape[1], w.shape[2])
    strides, dilation = pair(workload, "strides"), pair(workload, "dilation")
    rows = implicit.convolution(shape, kernel_size, strides, dilation, groups)
    return Product(rows, w.shape[0] // groups, groups, shape, pad, flipped, to, form, fused=fused)


def _dynamic(workload: Workload, kernel: str) -> Product | Rejection:
    misfit = row_scales.misfit(workload)
    if misfit is not None:
        return Rejection(kernel, *misfit)
    x, _, w = workload.operands
    depth, columns = w.shape
    data, flipped = (math.prod(x.shape) // depth, depth), x.dtype == "uint8"
    scales = row_scales.read(workload, FLIP * flipped)
    rows = implicit.linear(*data)
    return Product(rows, columns, 1, data, None, flipped, NOT_REQUANTIZED, "none", dynamic=scales)


def pair(workload: Workload, attribute: str) -> tuple[int, int]:
    """A convolution's attribute of two integers."""
    rows, columns = ast.literal_eval(dict(workload.attributes)[attribute])
    return int(rows), int(columns)


def weights_by_column(workload: Workload, constants: Sequence[Array], product: Product) -> Array:
    """The weights as int8 [groups, columns, depth], k in the order of the rows' segments."""
    w = constants[workload.operands[-1].index]
    if workload.composite in (LINEAR, DYNAMIC):
        return np.ascontiguousarray(w.T)[None]
    if product.kernels:
        return transposed_phases.weights_of(w, product.kernels)[None]
    return w.reshape(product.groups, product.columns, -1)


def offsets_and_multipliers(
    workload: Workload, constants: Sequence[Array], product: Product
) -> tuple[Array, Array]:
    """What accumulators start from, int32, and their multipliers, as float32; both [groups * columns]."""
    total = product.groups * product.columns
    offset = np.zeros(total, np.int64)
    step = workload.step("offset")
    if step is not None and step.operand is not None:
        offset = offset + _by_column(constants[step.operand.index], total)
    # What is not taken off the data.
    shift = FLIP * product.flipped - int(dict(workload.attributes).get("x_zero", 0))
    if shift:
        weights = weights_by_column(workload, constants, product).astype(np.int64)
        offset = offset + shift * weights.sum(-1).ravel()
    if product.form == "biased":
        offset = offset + MAGIC_BITS
    return offset.astype(np.int32), _by_column(requantize_step.multipliers(workload, constants), total)


def _by_column(values: Array, columns: int) -> Array:
    """One value for all columns, or one for each, once again for each run of output channels."""
    return np.tile(values.ravel(), columns // values.size)


def padded(x: tirx.Buffer, workload: Workload, product: Product) -> tirx.Buffer:
    """Emits the data with its border and a register of bytes behind it, that vectors may begin inside of it."""
    shape = workload.operands[0].shape
    image = (shape[0], shape[1], shape[2], shape[3]) if product.pad else (1, 1, 1, math.prod(shape))
    widths, value = (product.pad.widths, product.pad.value) if product.pad else (((0, 0),) * 4, 0.0)
    return copies.padded(x, image, widths, value)


def padding_cost(product: Product) -> Cost:
    """Instructions of the padded copy, if there is one: a load and a store a vector."""
    if product.pad is None:
        return Cost()
    vectors = math.prod(product.data) / VECTOR
    return scalar(vectors) + arithmetic(vectors)


def flip(value: ir.Expr, flipped: bool) -> ir.Expr:
    """A vector of data as int8: uint8 with its top bit flipped."""
    if not flipped:
        return value
    lanes = str(value.ty.dtype).rpartition("x")[2]
    mask = tirx.Broadcast(tirx.IntImm("uint8", FLIP), int(lanes))
    return tirx.reinterpret(f"int8x{lanes}", value ^ mask)
