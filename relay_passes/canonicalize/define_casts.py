# SPDX-License-Identifier: Apache-2.0
"""Casts of floats to integers, with a defined result for every float, as AArch64's FCVTZS and FCVTZU define it.

    NaN    →    0            out of range    →    the minimum or maximum integer

This is the result for 32 and 64 bits. A cast to 8 or 16 bits yields the lowest bits of the cast to 32 bits: 300 is 44
as int8, and -1 is 255 as uint8, as in onnxruntime, PyTorch and numpy if the number fits int32. In LLVM these casts are
undefined (poison), x86 returns the minimum integer for all numbers out of range, and constants of a graph are evaluated
both in numpy and by LLVM.

    cast(x, int32)    →    llvm.fptosi.sat(x)

On AArch64 this is the same instruction as the plain cast.
"""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.ir import Expr
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_map, structural_walk

_NARROW = 32
"""Bits of the smallest integers that there are instructions for."""

_FLOATS = ("float16", "float32", "float64")
# Sign, number of bits, and lanes, such as "x4" or "xvscalex4".
_INTEGERS = re.compile(r"(u?)int(8|16|32|64)(x.+)?")


def cast(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return values cast to a dtype in numpy; floats are cast to integers as compiled code does."""
    dtype = np.dtype(dtype)
    if values.dtype.kind != "f" or dtype.kind not in "iu":
        return np.asarray(values).astype(dtype)
    wide = np.dtype("int32") if dtype.itemsize * 8 < _NARROW else dtype
    limits = np.iinfo(wide)
    whole = np.trunc(np.where(np.isnan(values), 0, values).astype(np.float64))
    # The minimum float above the maximum integer, which itself may not be representable as a float.
    beyond = float(limits.max // 2 + 1) * 2
    inside = np.where((whole >= limits.min) & (whole < beyond), whole, 0).astype(wide)
    found = np.where(whole < limits.min, wide.type(limits.min), inside)
    return np.asarray(np.where(whole >= beyond, wide.type(limits.max), found)).astype(dtype)


def define_casts(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite casts of floats to integers so that every float has a defined result."""
    found: list[prim.Cast] = []
    structural_walk(func.body, [(prim.Cast, found.append)])
    if not any(map(_is_undefined, found)):  # a visitor takes a third of the time of a mutator, so check first
        return func
    return func.with_body(structural_map(func.body, [(prim.Cast, _defined)]))


def _is_undefined(node: prim.Cast) -> bool:
    """Whether a cast is from a float to an integer."""
    return str(node.value.ty.dtype).startswith(_FLOATS) and "int" in str(node.ty.dtype)


def _defined(node: prim.Cast) -> Expr:
    match = _INTEGERS.fullmatch(str(node.ty.dtype))
    if match is None or not _is_undefined(node):
        return node
    sign, bits, lanes = match.groups("")
    name = f"llvm.fpto{sign or 's'}i.sat"
    if int(bits) >= _NARROW:
        return tirx.call_llvm_pure_intrin(str(node.ty.dtype), name, node.value)
    return prim.Cast(
        node.ty, tirx.call_llvm_pure_intrin(f"int{_NARROW}{lanes}", "llvm.fptosi.sat", node.value)
    )
