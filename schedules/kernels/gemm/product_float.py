# SPDX-License-Identifier: Apache-2.0
"""Parsing of float workloads as matrix products: operands of one float dtype, or float data and int8 weights.

Sums and epilogue steps are float32 for all operand dtypes: a workload of 16-bit floats, or of int8 weights, is parsed
by replacing its dtypes by float32.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import OperandPadding, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm.product import (
    GemmProduct,
    Misfit,
    convolution,
    layout_misfit,
    linear,
    transposed_convolution,
)

LINEAR, CONV2D, TRANSPOSED = "arm.linear", "arm.conv2d", "arm.conv2d_transpose"
COMPOSITES = (CONV2D, LINEAR)

SUFFIXES = {"float16": "_f16", "bfloat16": "_bf16"}
"""Suffixes of composites' names by dtype."""

CAST = "cast"
"""The step that rounds to 16 bits."""

LEAST_COLUMNS = 8
"""Least columns per group of a grouped 16-bit float product; depthwise convolutions would leave most lanes unused."""

WEIGHT_ONLY = "arm.linear_w8"
"""The composite of int8 weights and float data."""

SCALE = "scale"
"""Name of the step that multiplies by the weights' scale."""


def products_of(workload: Workload, kernel: str) -> tuple[GemmProduct, ...] | Diagnostic:
    """Parse a float32 workload of `COMPOSITES`, or a transposed convolution, into one or more products.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
    """
    if workload.composite != TRANSPOSED:
        product = product_of(workload, kernel)
        return product if isinstance(product, Diagnostic) else (product,)
    misfit = _misfit(workload)
    if misfit is not None:
        return declined(kernel, *misfit)
    found = transposed_convolution(workload, 0)
    return found if isinstance(found[0], GemmProduct) else declined(kernel, *found)


def product_of(workload: Workload, kernel: str) -> GemmProduct | Diagnostic:
    """Parse a float32 workload of `COMPOSITES`.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
    """
    if workload.composite not in COMPOSITES:
        return declined(
            kernel, "composite is no float32 product", " or ".join(COMPOSITES), workload.composite, unfit=True
        )
    misfit = _misfit(workload)
    if misfit is not None:
        return declined(kernel, *misfit)
    if workload.composite == CONV2D:
        border = ConvolutionAttributes.of(workload).padding
        return convolution(workload, OperandPadding.spatial(border, 0) if any(border) else None)
    rank = len(workload.operands[1].shape)
    if rank != 2:
        return declined(kernel, "B is batched", "2 dimensions", f"{rank} dimensions")
    return linear(workload)


def half_products_of(workload: Workload, kernel: str, half: str) -> tuple[GemmProduct, ...] | Diagnostic:
    """Parse a 16-bit workload as `half_product_of` does, or a transposed convolution, into one or more products."""
    if workload.composite != TRANSPOSED + SUFFIXES[half]:
        product = half_product_of(workload, kernel, half)
        return product if isinstance(product, Diagnostic) else (product,)
    return _half_misfit(workload, kernel, half) or products_of(in_full(workload), kernel)


def half_product_of(workload: Workload, kernel: str, half: str) -> GemmProduct | Diagnostic:
    """Parse a linear layer or convolution with constant weights, whose operands have one 16-bit dtype.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
        half: The 16-bit dtype.
    """
    composites = [name + SUFFIXES[half] for name in COMPOSITES]
    if workload.composite not in composites:
        return declined(
            kernel, f"composite is no {half} product", " or ".join(composites), workload.composite, unfit=True
        )
    product = _half_misfit(workload, kernel, half) or product_of(in_full(workload), kernel)
    if isinstance(product, GemmProduct) and product.groups > 1 and product.columns < LEAST_COLUMNS:
        reason = "a group has fewer columns than a vector has lanes"
        return declined(kernel, reason, f"{LEAST_COLUMNS} or more", str(product.columns))
    return product


def _half_misfit(workload: Workload, kernel: str, half: str) -> Diagnostic | None:
    """Return why a workload's dtypes are not those of a 16-bit product; None if they are."""
    dtypes = {operand.dtype for operand in workload.operands}
    if dtypes != {half}:
        return declined(kernel, f"dtype is not {half}", half, ", ".join(sorted(dtypes)), unfit=True)
    if workload.output_dtype not in (half, "float32"):
        return declined(
            kernel, "output's dtype is not supported", f"{half} or float32", workload.output_dtype, unfit=True
        )
    return None


def weight_only_product_of(workload: Workload, kernel: str, data: str) -> GemmProduct | Diagnostic:
    """Parse a linear layer of int8 weights and data of the given dtype."""
    if workload.composite != WEIGHT_ONLY:
        return declined(
            kernel, "composite is no product of int8 weights", WEIGHT_ONLY, workload.composite, unfit=True
        )
    dtypes = [operand.dtype for operand in workload.operands]
    if dtypes != [data, "int8"]:
        return declined(
            kernel,
            "dtype of data or weights is not supported",
            f"{data}, int8",
            ", ".join(dtypes),
            unfit=True,
        )
    if workload.output_dtype not in (data, "float32"):
        return declined(
            kernel, "output's dtype is not supported", f"{data} or float32", workload.output_dtype, unfit=True
        )
    return product_of(in_full(workload), kernel)


def in_full(workload: Workload) -> Workload:
    """Return a copy of the workload in float32, without the epilogue steps that cast or multiply by weight scales."""
    if workload.composite in (*COMPOSITES, TRANSPOSED):
        return workload
    return replace(
        workload,
        composite=workload.composite.rpartition("_")[0],
        operands=tuple(replace(operand, dtype="float32") for operand in workload.operands),
        epilogue=tuple(step for step in workload.epilogue if step.name not in (CAST, SCALE)),
        output_dtype="float32",
    )


def bias_of(workload: Workload, constants: Sequence[Array], columns: int) -> Array:
    """Return the bias [columns], repeated if columns are several times the output channels; zeros without a bias."""
    step = workload.step("bias")
    if step is None or step.operand is None:
        return np.zeros(columns, np.float32)
    bias = constants[step.operand.index].ravel()
    return np.tile(bias, columns // len(bias))


def scales_of(workload: Workload, constants: Sequence[Array], columns: int) -> Array:
    """Return the scale of each column's int8 weights, float32 [columns]."""
    step = workload.step(SCALE)
    if step is None or step.operand is None:
        raise ValueError(f"{workload.composite} has no step {SCALE!r}")
    return np.broadcast_to(constants[step.operand.index].astype(np.float32).ravel(), (columns,))


def _misfit(workload: Workload) -> Misfit | None:
    """Return why a workload is no float32 product; None if it is one."""
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
    return None if workload.composite == LINEAR else layout_misfit(workload)
