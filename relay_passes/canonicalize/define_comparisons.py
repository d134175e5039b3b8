# SPDX-License-Identifier: Apache-2.0
"""Comparisons of floats with NaN and of booleans, as numpy defines them; TVM's code differs in some cases.

    a != b         →    (a == b) ^ true         of floats; TVM's result is false if one is NaN
    max(a, b)      →    llvm.maximum(a, b)      of floats; TVM's result is b if a is NaN
    a < b          →    int8(a) < int8(b)       of booleans, which TVM compares by instructions for floats

Maxima and minima are those of IEEE 754-2019 (FMAX and FMIN), which return NaN if an operand is NaN. The negation is an
exclusive or, because TVM simplifies other negations to a != b. On AArch64 each of these is one instruction.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Expr
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_map, structural_walk

_EXTREMA = {prim.Max: "llvm.maximum", prim.Min: "llvm.minimum"}
_OF_FLOATS = (prim.NE, *_EXTREMA)
_COMPARISONS = (prim.EQ, prim.LT, prim.LE, prim.GT, prim.GE, *_OF_FLOATS)


def define_comparisons(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite comparisons, maxima and minima, so that results for NaN and booleans are those of numpy.

    Args:
        func: PrimFunc without bfloat16 values, which `BF16ComputeLegalize` converts to float32.
    """
    found: list[Any] = []
    structural_walk(func.body, [(_COMPARISONS, found.append)])
    if not any(map(_is_redefined, found)):  # a visitor takes a third of the time of a mutator, so check first
        return func
    return func.with_body(structural_map(func.body, [(_COMPARISONS, _defined)]))


def _is_redefined(node: Any) -> bool:
    dtype = str(node.a.ty.dtype)
    return dtype.startswith("bool") or (isinstance(node, _OF_FLOATS) and "float" in dtype)


def _defined(node: Any) -> Expr:
    if not _is_redefined(node):
        return node
    dtype = str(node.a.ty.dtype)
    if dtype.startswith("bool"):
        integers = dtype.replace("bool", "int8")
        compared = type(node)(tirx.Cast(integers, node.a), tirx.Cast(integers, node.b))
        return tirx.Cast(dtype, compared) if type(node) in _EXTREMA else compared
    if isinstance(node, prim.NE):
        equal = prim.EQ(node.a, node.b)
        return tirx.bitwise_xor(equal, tirx.const(True, str(equal.ty.dtype)))
    return tirx.call_llvm_pure_intrin(dtype, _EXTREMA[type(node)], node.a, node.b)
