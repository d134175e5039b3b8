# SPDX-License-Identifier: Apache-2.0
"""Float products and quotients with a constant 0, in a form that TVM does not simplify in violation of IEEE 754.

    x / 0    →    x · inf        x / -0 with -inf; 0 / 0 and 0 · inf are NaN, other results have equal signs
    0 / x    →    [0] / x
    x · 0    →    x · [0]        a tensor of one axis

TVM simplifies 0 / x and 0 · x to 0, although x may be NaN, infinite or 0, and fails with an error for a division by a
scalar 0. Quantised: floats alone.
"""

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Op

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.rewrite_calls import rewrite_calls
from relay_passes.ir.shapes import static_shape
from relay_passes.ir.sources import sources_of, with_source

_DIVIDE, _MULTIPLY = map(Op.get, ("relax.divide", "relax.multiply"))


def keep_zeros(mod: IRModule) -> IRModule:
    """Rewrite float products and quotients with a constant 0, so that TVM does not fold them to 0.

    Args:
        mod: Module whose Relax functions are in A-normal form.
    """
    return rewrite_calls(mod, _has_zero, _rewritten)


def _has_zero(value: Expr) -> bool:
    if not isinstance(value, Call) or not any(value.op.same_as(op) for op in (_DIVIDE, _MULTIPLY)):
        return False
    return any(map(_is_zero, value.args))


def _is_zero(expr: Expr) -> bool:
    """Whether an expression is a scalar float constant 0."""
    if not isinstance(expr, GenericConst) or not str(expr.ty.dtype).startswith(("float", "bfloat")):
        return False
    return static_shape(expr) == () and not expr.value.numpy().any()


def _rewritten(call: Call) -> Call:
    a, b = call.args
    if call.op.same_as(_DIVIDE) and _is_zero(b):
        zero = b.value.numpy()
        infinite = np.where(np.signbit(zero.astype(np.float32)), -np.inf, np.inf).astype(zero.dtype)
        return with_source(relax.op.multiply(a, tensor_const(infinite)), sources_of(call))
    if static_shape(call) == ():
        return call
    operands = [tensor_const(x.value.numpy().reshape(1)) if _is_zero(x) else x for x in (a, b)]
    return with_source(Call(call.op, operands, call.attrs), sources_of(call))
