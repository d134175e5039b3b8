# SPDX-License-Identifier: Apache-2.0
"""Concatenations of many tensors as a tree of smaller ones: TVM takes minutes to lower hundreds of operands.

    concat(a, b, …)    →    concat(concat(a, b, …), concat(…), …)        if there are more than WIDEST operands

Quantised: runs after `integerize`, and copies integers once more. Concatenations of some dozens of operands do not
change.
"""

from collections.abc import Sequence

from tvm import IRModule
from tvm.ir import Call, Expr, Op, Tuple

from relay_passes.ir.rewrite_calls import rewrite_calls
from relay_passes.ir.sources import sources_of, with_source

WIDEST = 32
"""Operands of a kernel. Lowering time grows with their square: some seconds for 64 of them, minutes for 500."""

_CONCAT = Op.get("relax.concat")


def split_concat(mod: IRModule) -> IRModule:
    """Rewrite concatenations of more than `WIDEST` tensors as a tree of smaller ones.

    Args:
        mod: Module whose Relax functions are in A-normal form.
    """
    return rewrite_calls(mod, _is_wide, _split)


def _is_wide(value: Expr) -> bool:
    return (
        isinstance(value, Call)
        and value.op.same_as(_CONCAT)
        and isinstance(value.args[0], Tuple)
        and len(value.args[0].fields) > WIDEST
    )


def _split(call: Call) -> Call:
    parts: Sequence[Expr] = call.args[0].fields
    while len(parts) > WIDEST:
        groups = [parts[first : first + WIDEST] for first in range(0, len(parts), WIDEST)]
        parts = [_joined(call, group) if len(group) > 1 else group[0] for group in groups]
    return _joined(call, parts)


def _joined(call: Call, parts: Sequence[Expr]) -> Call:
    return with_source(Call(_CONCAT, [Tuple(parts)], call.attrs), sources_of(call))
