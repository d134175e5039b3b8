# SPDX-License-Identifier: Apache-2.0
"""Integer shifts, defined for every shift count as by PyTorch, numpy and StableHLO.

    a << s    =    0                     if s is negative, or at least the width in bits
    a >> s    =    0, or -1 if a < 0     likewise

Both are undefined in LLVM, and processors differ: AArch64 uses the count's lowest bits in general registers, but more
bits in vectors. Shifts by constants within the width are not changed.

    a << s    →    where(0 ≤ s < width, a << s', 0)         s' = where(0 ≤ s < width, s, width - 1)
    a >> s    →    a >> s'                                  of signed integers; of unsigned integers as a << s
"""

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Op

from relay_passes.ir.rewrite_calls import rewrite_calls
from relay_passes.ir.sources import sources_of, with_source

_LEFT, _RIGHT = map(Op.get, ("relax.left_shift", "relax.right_shift"))


def define_shifts(mod: IRModule) -> IRModule:
    """Rewrite shifts whose count may be negative or at least the width, so that they have a defined result.

    Args:
        mod: Module whose Relax functions are in A-normal form.
    """
    return rewrite_calls(mod, _is_open, _rewritten)


def _width(call: Call) -> int:
    return np.dtype(str(call.args[0].ty.dtype)).itemsize * 8


def _is_open(value: Expr) -> bool:
    """Whether a shift's count may be negative or at least the width."""
    if not isinstance(value, Call) or not any(value.op.same_as(op) for op in (_LEFT, _RIGHT)):
        return False
    count = value.args[1]
    if not isinstance(count, GenericConst):
        return True
    held = count.value.numpy()
    return bool((held < 0).any() or (held >= _width(value)).any())


def _rewritten(call: Call) -> Call:
    names = sources_of(call)

    def emit(expr: Call) -> Call:
        return with_source(expr, names)

    a, count = call.args
    dtype, width = str(a.ty.dtype), _width(call)

    def number(value: int) -> Expr:
        return relax.const(np.array(value, dtype), dtype)

    signed = dtype.startswith("int")
    fits = emit(relax.op.less(count, number(width)))
    if signed:
        fits = emit(relax.op.logical_and(fits, emit(relax.op.greater_equal(count, number(0)))))
    shifted = emit(Call(call.op, [a, emit(relax.op.where(fits, count, number(width - 1)))], call.attrs))
    if signed and call.op.same_as(_RIGHT):
        return shifted
    return emit(relax.op.where(fits, shifted, number(0)))
