# SPDX-License-Identifier: Apache-2.0
"""Parsing of integer workloads as matrix products, and the constants of their requantisation.

A workload multiplies 8-bit data by int8 weights, adds an offset per column (bias and zero points) and requantises the
sums. uint8 data is read as int8 with its top bit flipped, that is data - 128, for which the offset compensates.
Nine-bit weights, which are uint8 minus a zero point, are split into int8 and one shift per column:

    sum over k of x[k] * w[k, n]    =    sum over k of x[k] * (w[k, n] - shift[n])  +  shift[n] * sum over k of x[k]

int16 data is split into two planes of int8, x = 256 * high + low + 128, so that instructions for int8 multiply it:

    sum of x * w    =    256 * (sum of high * w)  +  (sum of low * w)  +  128 * (sum of w)

The sum is exact modulo 2**32, hence exact if the accumulator is proven to fit int32. Each product takes two int8
products, so that an SDOT computes 8 products of int16 data and an SMMLA 16; SMLAL on int16 and FMLA on float32
compute four.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from tvm import ir, tirx

from schedules.composites.attributes import ConvolutionAttributes, encoded
from schedules.composites.workload import OperandPadding, Workload
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.common.cost_model import Cost, arithmetic, requantization, scalar
from schedules.kernels.epilogues import requantize_step, residual_s8, row_scales
from schedules.kernels.epilogues.accumulator_bounds import BYTE_SPAN
from schedules.kernels.epilogues.requantize import NOT_REQUANTIZED, Form, Requantization
from schedules.kernels.epilogues.residual_s8 import Residual
from schedules.kernels.epilogues.row_scales import DYNAMIC, RowScales
from schedules.kernels.gemm.product import (
    GemmProduct,
    Misfit,
    convolution,
    layout_misfit,
    linear,
    transposed_convolution,
    weights_by_column,
)
from schedules.numerics.binary32 import MAGIC_BITS
from schedules.tir.emit import converted

LINEAR = "arm.linear_s8"
COMPOSITES = ("arm.conv2d_s8", LINEAR)
TRANSPOSED = "arm.conv2d_transpose_s8"


def misfit_of(workload: Workload, *, wide: bool = False) -> Misfit | None:
    """Return why a workload is no supported integer product; None if it is one.

    Args:
        workload: Any workload.
        wide: Whether nine-bit weights, and data and results of int16, are supported.
    """
    x, w = workload.operands
    requantize, offset = workload.step("requantize"), workload.step("offset")
    misfit = requantize_step.misfit(workload, wide=wide)
    if misfit is not None or requantize is None:
        return misfit
    misfit = _dtype_misfit(workload, nine_bits=wide)
    if wide and x.dtype == WIDE:
        misfit = _wide_misfit(workload)
    if misfit is not None:
        return misfit
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
    misfit = layout_misfit(workload)
    if misfit is not None:
        return misfit
    border = ConvolutionAttributes.of(workload).padding
    if workload.pad and any(border):
        return "data is padded twice", "once", encoded(border)
    return None


def _dtype_misfit(workload: Workload, *, nine_bits: bool) -> Misfit | None:
    x, w, wide = workload.operands[0], workload.operands[-1], nine_bits and NINE_BITS
    if x.dtype not in ("int8", "uint8") or w.dtype not in ("int8", wide):
        return "operands are not of 8 bits", "int8 or uint8 by int8", f"{x.dtype} by {w.dtype}"
    if w.dtype == wide and (workload.magnitude is None or workload.magnitude.span > BYTE_SPAN):
        actual = "unknown" if workload.magnitude is None else str(workload.magnitude.span)
        return "weights of a column differ by more than 8 bits can", f"at most {BYTE_SPAN}", actual
    return None


def _wide_misfit(workload: Workload) -> Misfit | None:
    weights, limit = workload.operands[-1].dtype, workload.magnitude
    if weights != "int8":
        return "int16 data is multiplied by other weights", "int8", weights
    if limit is None or limit.accumulator > ACCUMULATOR_BITS:
        actual = "unknown" if limit is None else f"2**{limit.accumulator}"
        return "accumulators may exceed int32", f"2**{ACCUMULATOR_BITS}", actual
    return None


WIDE = "int16"
"""Dtype of data that is split into two planes."""

ACCUMULATOR_BITS = 31
"""|accumulator| below two to this power is in int32."""

CONVERTED_BITS = 30
"""|acc * m| below two to this power, with a zero point added, is in int32."""

LEAST_COLUMNS = 8
"""Least columns per group of int16 data: of a depthwise convolution, a tile has one column."""

PLANE = 256
"""Factor of the high plane of int16 data."""

NINE_BITS = "int16"
"""Dtype of nine-bit weights in a workload."""

FLIP = 128
"""Difference between uint8 data, or a low byte, and the int8 data with the top bit flipped."""


@dataclass(frozen=True, kw_only=True)
class IntegerProduct(GemmProduct):
    """A product of 8-bit data, or of int16 data in two planes, by int8 weights, with its requantisation.

    Attributes:
        data: Shape of the data, with the border of `pad`.
        flipped: Whether the data is uint8.
        planes: Number of int8 planes that the data is split into: 2 for int16 data, else 1.
        to: Quantisation of the output.
        form: Form of the requantisation.
        residual: Residual addition after the requantisation.
        dynamic: Dequantisation to float32 instead of the requantisation, if the data is quantised at run time; else
            None.
        fused: Whether panels are requantised in the fused form if it is exact for all their columns.
        shifted: Whether weights have nine bits, so that columns have shifts.
    """

    data: tuple[int, ...]
    flipped: bool
    to: Requantization
    form: Form
    fused: bool = False
    residual: Residual | None = None
    dynamic: RowScales | None = None
    shifted: bool = False
    planes: int = 1

    @property
    def plane(self) -> int:
        """Number of elements in a plane of the data."""
        return math.prod(self.data)


@lru_cache(1024)  # cached, because the estimate of each tile parses its workload
def products_of(workload: Workload, kernel: str) -> tuple[IntegerProduct, ...] | Diagnostic:
    """Parse a workload of `COMPOSITES`, residual included; a transposed convolution gives several products.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
    """
    parts = residual_s8.separate(workload)
    if parts is not None:
        return _with_residual(workload, *parts, kernel)
    if workload.composite != TRANSPOSED:
        find = _dynamic if workload.composite in DYNAMIC else product_of
        product = find(workload, kernel, wide=True)
        if isinstance(product, Diagnostic):
            return product
        if product.planes > 1 and product.groups > 1 and product.columns < LEAST_COLUMNS:
            reason = "a group of int16 data has fewer columns than a tile"
            return declined(kernel, reason, f"{LEAST_COLUMNS} or more", str(product.columns))
        return (product,)
    misfit = misfit_of(workload, wide=True)
    if misfit is not None:
        return declined(kernel, *misfit)
    # The border is filled with the zero point, so that its contribution is the same for all outputs of a phase.
    found = transposed_convolution(workload, int(dict(workload.attributes)["x_zero"]))
    if not isinstance(found[0], GemmProduct):
        return declined(kernel, *found)
    return tuple(_requantized(workload, each) for each in found)


def _with_residual(
    workload: Workload, alone: Workload, total: Workload, kernel: str
) -> tuple[IntegerProduct, ...] | Diagnostic:
    products = products_of(alone, kernel)
    if isinstance(products, Diagnostic):
        return products
    residual = residual_s8.residual_of(workload, total)
    if not isinstance(residual, Residual):
        return declined(kernel, *residual)
    return tuple(replace(product, residual=residual) for product in products)


def product_of(workload: Workload, kernel: str, *, wide: bool = False) -> IntegerProduct | Diagnostic:
    """Parse a workload of `COMPOSITES`.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
        wide: Whether nine-bit weights, and data and results of int16, are supported.
    """
    if workload.composite not in COMPOSITES:
        return declined(
            kernel, "composite is no integer product", " or ".join(COMPOSITES), workload.composite, unfit=True
        )
    misfit = misfit_of(workload, wide=wide)
    if misfit is not None:
        return declined(kernel, *misfit)
    if workload.composite == LINEAR:
        return _requantized(workload, linear(workload))
    return _requantized(workload, _convolution(workload))


def converted_product_of(workload: Workload, kernel: str) -> IntegerProduct | Diagnostic:
    """Parse a workload for a kernel whose accumulators begin with the offset alone: form "convert" or "rescale".

    Arguments are those of `product_of`; so are the workloads that it accepts.
    """
    product = product_of(workload, kernel)
    if isinstance(product, Diagnostic):
        return product
    limit = workload.magnitude
    if limit is None or limit.scaled > CONVERTED_BITS:
        actual = "unknown" if limit is None else f"2**{limit.scaled}"
        return declined(
            kernel, "outputs may exceed int32 before they saturate", f"2**{CONVERTED_BITS}", actual
        )
    form: Form = "rescale" if product.form == "rescale" else "convert"
    return replace(product, form=form, fused=False)


def _convolution(workload: Workload) -> GemmProduct:
    border = ConvolutionAttributes.of(workload).padding
    pad = workload.pad or (OperandPadding.spatial(border, 0) if any(border) else None)
    return convolution(workload, pad)


def _requantized(workload: Workload, product: GemmProduct) -> IntegerProduct:
    """Return a copy of a product with the workload's requantisation."""
    to, form = requantize_step.quantization(workload)
    fused = form == "biased" and workload.magnitude is not None and workload.magnitude.fused
    # The fused form is not used for transposed convolutions, for which it was not measured.
    return _of_data(workload, product, to, form, fused=fused and not product.kernels)


def _dynamic(workload: Workload, kernel: str, *, wide: bool) -> IntegerProduct | Diagnostic:
    misfit = row_scales.misfit(workload) or _dtype_misfit(workload, nine_bits=wide)
    if misfit is not None:
        return declined(kernel, *misfit)
    scales = row_scales.read(workload, FLIP * (workload.operands[0].dtype == "uint8"))
    product = linear(workload) if workload.composite in row_scales.LINEAR else _convolution(workload)
    return replace(_of_data(workload, product, NOT_REQUANTIZED, "none"), dynamic=scales)


def _of_data(
    workload: Workload, product: GemmProduct, to: Requantization, form: Form, *, fused: bool = False
) -> IntegerProduct:
    """Return the integer product for a product and the requantisation of its sums."""
    x, w = workload.operands[0], workload.operands[-1]
    data = (product.rows.count, product.rows.depth) if len(w.shape) == 2 else x.shape
    return IntegerProduct(
        **vars(product),
        data=product.pad.padded(data) if product.pad else data,
        flipped=x.dtype == "uint8",
        to=to,
        form=form,
        fused=fused,
        shifted=w.dtype == NINE_BITS,
        planes=2 if x.dtype == WIDE else 1,
    )


def shifts_of(weights: Array) -> Array:
    """Return int32 shifts, one per column of weights [..., depth], such that weights - shift fits int8."""
    info, low, high = np.iinfo(np.int8), weights.min(-1).astype(np.int32), weights.max(-1).astype(np.int32)
    shifts: Array = np.maximum(high - info.max, 0) + np.minimum(low - info.min, 0)
    return shifts


def offsets_and_multipliers(
    workload: Workload, constants: Sequence[Array], product: IntegerProduct
) -> tuple[Array, Array]:
    """Return the initial accumulators (int32) and the multipliers (float32), both [groups * columns]."""
    total = product.groups * product.columns
    offset = np.zeros(total, np.int64)
    step = workload.step("offset")
    if step is not None and step.operand is not None:
        offset = offset + _by_column(constants[step.operand.index], total)
    # The number that reading the data as int8 subtracts (128 for uint8 and for int16, else 0), minus the zero point.
    split = product.flipped or product.planes > 1
    shift = FLIP * split - int(dict(workload.attributes).get("x_zero", 0))
    if shift:
        weights = weights_by_column(workload, constants, product).astype(np.int64)
        offset = offset + shift * weights.sum(-1).ravel()
    if product.form == "biased":
        offset = offset + MAGIC_BITS
    return offset.astype(np.int32), _by_column(requantize_step.multipliers(workload, constants), total)


def _by_column(values: Array, columns: int) -> Array:
    """Return one value per column, [columns], by repeating a scalar or one value per output channel."""
    return np.tile(values.ravel(), columns // values.size)


def requantization_cost(product: IntegerProduct, outputs: float, *, reload: bool) -> Cost:
    """Return the cost of requantising `outputs` outputs, without stores.

    Args:
        product: The product; if its panels may be requantised in the fused form, all are assumed to be.
        outputs: Number of outputs.
        reload: Whether the fused form's addends are loaded, two vectors at a time, instead of copied.
    """
    if not product.fused:
        return requantization(outputs, product.form, product.to)
    vectors = outputs / LANES
    loaded = scalar(vectors / 2) + arithmetic(-vectors) if reload else Cost()
    return requantization(outputs, "fused", product.to) + loaded


def padding_cost(product: IntegerProduct) -> Cost:
    """Return the cost of the padded copy of the data, if there is one: a load and a store per vector."""
    vectors = math.prod(product.data) / VECTOR
    if product.planes > 1:
        return scalar(2 * vectors) + arithmetic(SPLIT * vectors)
    return scalar(vectors) + arithmetic(vectors) if product.pad else Cost()


SPLIT = 5
"""Vector instructions that split 16 elements of int16 into planes: UZP1, EOR, UZP2, and two stores."""

PLANES: tuple[copies.Plane, ...] = (
    lambda value: _byte((value & _constant(value, PLANE - 1)) - _constant(value, FLIP)),
    lambda value: _byte(value >> _constant(value, PLANE.bit_length() - 1)),
)
"""The planes of int16 data, each int8: the low bytes less 128, and the high bytes."""


def _byte(value: ir.Expr) -> ir.Expr:
    """Cast a vector or scalar of integers that fit int8 to int8."""
    return converted(value, "int8")


def _constant(like: ir.Expr, value: int) -> ir.Expr:
    element, _, lanes = str(like.ty.dtype).partition("x")
    scalar = tirx.IntImm(element, value)
    return tirx.Broadcast(scalar, int(lanes)) if lanes else scalar


def joined(low: ir.Expr, high: ir.Expr, offset: ir.Expr) -> ir.Expr:
    """Return int32x4 low + offset + 256 * high, computed in uint32, whose overflow LLVM defines."""
    low, high, offset = (tirx.reinterpret("uint32x4", each) for each in (low, high, offset))
    shift = tirx.Broadcast(tirx.IntImm("uint32", PLANE.bit_length() - 1), LANES)
    return tirx.reinterpret("int32x4", low + offset + (high << shift))


def flip(value: ir.Expr, flipped: bool) -> ir.Expr:
    """Reinterpret a vector of data as int8; if `flipped` (uint8 data), with the top bit of each byte flipped."""
    if not flipped:
        return value
    lanes = str(value.ty.dtype).rpartition("x")[2]
    mask = tirx.Broadcast(tirx.IntImm("uint8", FLIP), int(lanes))
    return tirx.reinterpret(f"int8x{lanes}", value ^ mask)
