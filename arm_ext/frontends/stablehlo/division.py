# SPDX-License-Identifier: Apache-2.0
"""Division of integers in StableHLO, which gives -1 for a divisor of 0, of all bits, as XLA does on the CPU.

All else is as `relay_passes.canonicalize.define_division` has it.
"""

from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.stablehlo.values import Values

R = relax.op


def quotient(t: Values, a: Expr, b: Expr) -> Expr:
    """Return a / b; for integers, all bits are set where b is 0."""
    divided = t.emit(R.divide(a, b))
    if "int" not in str(a.ty.dtype):
        return divided
    is_zero = t.emit(R.equal(b, t.number(0, b)))
    return R.where(is_zero, t.emit(R.bitwise_not(t.number(0, a))), divided)
