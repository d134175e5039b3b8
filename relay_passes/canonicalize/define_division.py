# SPDX-License-Identifier: Apache-2.0
"""Integer division and remainder, defined for every divisor as by AArch64's SDIV, UDIV and MSUB.

    a / 0      =  0            least / -1     =  least
    a mod 0    =  a            least mod -1   =  0

(`least` is the minimum integer.) Both are undefined in LLVM, and on x86 they end the process (SIGFPE): in constant
folding, in the self-test and in a package for the host. onnxruntime, LiteRT and PyTorch raise an error for a divisor of
0, while a package continues with these values; for least / -1 they return the processor's result, which on a board is
this one. XLA returns -1 for a / 0, which the front end of StableHLO selects, and otherwise the same results.

    a / b    →    where(b = 0, 0, where(b = -1, -a, a / where(b = 0 or b = -1, 1, b)))

Divisions by constants other than 0 and -1 are not changed. Quantised: integer divisions alone; QDQ is not changed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Op

from relay_passes.ir.rewrite_calls import rewrite_calls
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of, with_source

Array = npt.NDArray[Any]

_QUOTIENTS = tuple(map(Op.get, ("relax.divide", "relax.floor_divide")))
_REMAINDERS = tuple(map(Op.get, ("relax.mod", "relax.floor_mod")))


def _defined(a: Array, b: Array, divide: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    """Return a division's defined result for all divisors, and the divisor with zeros replaced by 1."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    with np.errstate(all="ignore"):
        return divide(a, safe), safe


def _truncated(a: Array, b: Array) -> Array:
    floored = a // b
    return np.asarray(floored + ((floored < 0) & (floored * b != a)).astype(a.dtype), a.dtype)


def quotient(a: Array, b: Array, *, floor: bool = False) -> Array:
    """Return the defined a / b of integers of one dtype, rounded towards zero, or down if `floor`."""
    divided, _ = _defined(a, b, np.floor_divide if floor else _truncated)
    return np.asarray(np.where(b == 0, a.dtype.type(0), divided), a.dtype)


def remainder(a: Array, b: Array, *, floor: bool = False) -> Array:
    """Return the remainder of `quotient`, with the dividend's sign, or the divisor's if `floor`."""
    divided, _ = _defined(a, b, np.remainder if floor else np.fmod)
    return np.asarray(np.where(b == 0, a, divided), a.dtype)


def divides_integers(mod: IRModule) -> bool:
    """Whether a module has an integer division whose divisor may be 0 or -1."""
    return any(_is_open(b.value) for _, func in relax_functions(mod) for b in bindings_of(func))


def define_division(mod: IRModule) -> IRModule:
    """Rewrite integer divisions whose divisor may be 0 or -1, so that they have a defined result.

    Args:
        mod: Module whose Relax functions are in A-normal form.
    """
    return rewrite_calls(mod, _is_open, _rewritten)


def _is_open(value: Expr) -> bool:
    """Whether the divisor of a division may be 0 or -1."""
    if not isinstance(value, Call) or not any(value.op.same_as(op) for op in (*_QUOTIENTS, *_REMAINDERS)):
        return False
    divisor = value.args[1]
    dtype = str(divisor.ty.dtype)
    if not dtype.startswith(("int", "uint")):
        return False
    if not isinstance(divisor, GenericConst):
        return True
    held = divisor.value.numpy()
    return bool((held == 0).any() or (dtype.startswith("int") and (held == -1).any()))


def _rewritten(call: Call) -> Call:
    names = sources_of(call)

    def emit(expr: Call) -> Call:
        return with_source(expr, names)

    a, b = call.args
    dtype = str(b.ty.dtype)
    zero, one = (relax.const(np.array(number, dtype), dtype) for number in (0, 1))
    is_zero = unsafe = emit(relax.op.equal(b, zero))
    if signed := dtype.startswith("int"):
        is_minus_one = emit(relax.op.equal(b, relax.const(np.array(-1, dtype), dtype)))
        unsafe = emit(relax.op.logical_or(is_zero, is_minus_one))
    divided = emit(Call(call.op, [a, emit(relax.op.where(unsafe, one, b))], call.attrs))
    if any(call.op.same_as(op) for op in _REMAINDERS):
        return emit(relax.op.where(is_zero, a, divided))
    if signed:
        # Negated as unsigned numbers: -least does not fit the type, and LLVM assumes that signed numbers do not
        # overflow. (TVM simplifies 0 - x of unsigned numbers to 0.)
        turned = emit(relax.op.bitwise_not(emit(relax.op.astype(a, unsigned := f"u{dtype}"))))
        added = emit(relax.op.add(turned, relax.const(np.array(1, unsigned), unsigned)))
        negated = emit(relax.op.astype(added, dtype))
        divided = emit(relax.op.where(is_minus_one, negated, divided))
    return emit(relax.op.where(is_zero, zero, divided))
