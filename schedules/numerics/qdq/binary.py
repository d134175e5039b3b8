# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of two quantised tensors.

    q = saturate(rne(fl(fl(fl(da * sa) op fl(db * sb)) / sc)) + zc)    da = a - za, db = b - zb

A constant operand is its binary32 value fl(db * sb), or an unchanged float constant. Results equal those of onnxruntime
without optimisations.

On machines with a fused multiply-add, LLVM would contract fl(fl(da * sa) + ...), which rounds once instead of twice.
Therefore max(product, its minimum) is computed: it never changes the product, which LLVM cannot know, so multiplication
and addition stay separate instructions, and vectorise.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import (
    Array,
    Bounds,
    Floats,
    Quantization,
    dequantize,
    dequantize_tir,
    f32,
    integer_bounds,
    limits,
    saturate,
    saturate_tir,
)
from schedules.numerics.routine import Routine, broadcast, routine

Op = Literal["add", "subtract", "multiply", "divide", "maximum", "minimum"]

_TIR: dict[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": tirx.Div,
    "maximum": tirx.max,
    "minimum": tirx.min,
}


def binary(op: Op, a: Floats, b: Floats, y: Quantization, bounds: Bounds = (None, None)) -> Array:
    """Compute the quantised function of two dequantised tensors, which broadcast, by the module's definition."""
    result = getattr(np, op)(a, b)
    return saturate(result / np.float32(y.scale), y.zero_point, *integer_bounds(y, bounds), y.dtype)


def binary_routine(
    op: Op,
    shapes: tuple[Sequence[int], Sequence[int]],
    operands: tuple[Quantization | Floats, Quantization | Floats],
    y: Quantization,
    bounds: Bounds,
) -> Routine:
    """Return a routine that computes `binary`; at least one operand is quantised, the other may be a constant.

    Its attributes are scale and zero_point with the prefixes a_, b_ and y_, low and high; a constant has none.

    Args:
        op: The binary function.
        shapes: Shapes of the operands; they broadcast to the output's.
        operands: Quantisation of each operand, or the value of a constant, a float array.
        y: Quantisation of the output.
        bounds: Real bounds of a clamp of the result, if there is one.
    """
    low, high = integer_bounds(y, bounds)
    constants = [np.asarray(o, np.float32) for o in operands if isinstance(o, np.ndarray)]
    tensors = [
        te.placeholder(shape, "float32" if isinstance(o, np.ndarray) else o.dtype, name)
        for shape, o, name in zip(shapes, operands, "ab", strict=True)
    ]
    shape = np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    out = te.compute(
        shape,
        lambda *i: saturate_tir(
            _TIR[op](*(_real(broadcast(t, shape, i), o) for t, o in zip(tensors, operands, strict=True)))
            / f32(y.scale),
            y.zero_point,
            low,
            high,
            y.dtype,
        ),
        op,
    )
    runtime = [t for t, o in zip(tensors, operands, strict=True) if not isinstance(o, np.ndarray)]
    constant = [t for t, o in zip(tensors, operands, strict=True) if isinstance(o, np.ndarray)]
    parameters: dict[str, Any] = {"low": low, "high": high}
    for name, per in zip("aby", (*operands, y), strict=True):
        if not isinstance(per, np.ndarray):
            parameters[f"{name}_scale"] = float(np.float32(per.scale))
            parameters[f"{name}_zero_point"] = per.zero_point
    return routine(f"qdq.{op}", [*runtime, *constant, out], constants, **parameters)


def _real(element: ir.Expr, operand: Quantization | Floats) -> ir.Expr:
    if isinstance(operand, np.ndarray):
        return element
    least = dequantize(np.array(limits(operand.dtype)[0], operand.dtype), operand)
    return tirx.max(dequantize_tir(element, operand), f32(float(least)))
