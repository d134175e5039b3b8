# SPDX-License-Identifier: Apache-2.0
"""Products of 16-bit floats, or of int8 weights, read as the float32 products that they are but for their dtypes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schedules.composites.workload import Workload
from schedules.kernels.common.contract import Array, Rejection
from schedules.kernels.gemm import product_f32
from schedules.kernels.gemm.product_f32 import Product

SUFFIXES = {"float16": "_f16", "bfloat16": "_bf16"}
"""Of the composites' names."""

CAST = "cast"
"""The step that rounds to 16 bits."""

LEAST_COLUMNS = 8
"""Of a group, where there are several: those of depthwise convolutions leave most lanes unused."""

WEIGHT_ONLY = "arm.linear_w8"
"""The composite of int8 weights and float data."""

SCALE = "scale"
"""Its step that multiplies by the weights' scale."""


def product_of(workload: Workload, kernel: str, half: str) -> Product | Rejection:
    """Reads a linear layer or convolution with constant weights, of operands of one 16-bit dtype.

    Args:
        workload: Any.
        kernel: Who asks, for the rejection.
        half: The dtype.
    """
    composites = [name + SUFFIXES[half] for name in product_f32.COMPOSITES]
    if workload.composite not in composites:
        return Rejection(
            kernel, f"composite is no {half} product", " or ".join(composites), workload.composite
        )
    dtypes = {operand.dtype for operand in workload.operands}
    if dtypes != {half}:
        return Rejection(kernel, f"dtype is not {half}", half, ", ".join(sorted(dtypes)))
    if workload.output_dtype not in (half, "float32"):
        return Rejection(kernel, "output has another dtype", f"{half} or float32", workload.output_dtype)
    product = product_f32.product_of(in_full(workload), kernel)
    if isinstance(product, Product) and product.groups > 1 and product.columns < LEAST_COLUMNS:
        reason = "a group has fewer columns than a vector has lanes"
        return Rejection(kernel, reason, f"{LEAST_COLUMNS} or more", str(product.columns))
    return product


def weight_only_product_of(workload: Workload, kernel: str, data: str) -> Product | Rejection:
    """Reads a linear layer of int8 weights and data of the given dtype."""
    if workload.composite != WEIGHT_ONLY:
        return Rejection(kernel, "composite is no product of int8 weights", WEIGHT_ONLY, workload.composite)
    dtypes = [operand.dtype for operand in workload.operands]
    if dtypes != [data, "int8"]:
        return Rejection(kernel, "dtype is another", f"{data}, int8", ", ".join(dtypes))
    if workload.output_dtype not in (data, "float32"):
        return Rejection(kernel, "output has another dtype", f"{data} or float32", workload.output_dtype)
    return product_f32.product_of(in_full(workload), kernel)


def scales_of(workload: Workload, constants: Sequence[Array], columns: int) -> Array:
    """The scale of each column's int8 weights, float32 [columns]."""
    step = workload.step(SCALE)
    if step is None or step.operand is None:
        raise ValueError(f"{workload.composite} has no step {SCALE!r}")
    return np.broadcast_to(constants[step.operand.index].astype(np.float32).ravel(), (columns,))


def in_full(workload: Workload) -> Workload:
    """The same in float32, without the steps that rounding and scales need."""
    return replace(
        workload,
        composite=workload.composite.rpartition("_")[0],
        operands=tuple(replace(operand, dtype="float32") for operand in workload.operands),
        epilogue=tuple(step for step in workload.epilogue if step.name not in (CAST, SCALE)),
        output_dtype="float32",
    )
