# SPDX-License-Identifier: Apache-2.0
"""LegalizeOps with source names kept, and without TVM's warning about indices.

TVM's loops of `take` in mode "fast" come with a warning for each call ("Fast mode segfaults when there are
out-of-bounds indices"). Nobody could act on it: `check_indices` proves all indices to be in bounds, or checks them.
"""

from collections.abc import Callable, Mapping

from tvm import IRModule, ir, relax, te

from relay_passes.ir.upstream import run_upstream

Legalize = Callable[[relax.BlockBuilder, ir.Call], ir.Expr]

_TAKE = "relax.take"


def legalize(mod: IRModule, others: Mapping[str, Legalize] | None = None) -> IRModule:
    """Turn operators into calls of their loops.

    Args:
        mod: Its Relax functions are in A-normal form and their calls named.
        others: Operator → its loops, where they are not TVM's.
    """
    return run_upstream(mod, relax.transform.LegalizeOps({_TAKE: _take, **(others or {})}))


def _take(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    x, indices = call.args
    if str(call.attrs.mode) != "fast":
        return ir.Op.get(_TAKE).get_attr("FLegalize")(builder, call)
    # Without an axis, the data has one.
    at = int(call.attrs.axis or 0) % len(x.ty.shape)
    rank = len(indices.ty.shape)

    def value(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        shape = (*data.shape[:at], *index.shape, *data.shape[at + 1 :])
        return te.compute(
            shape,
            lambda *place: data(*place[:at], index(*place[at : at + rank]), *place[at + rank :]),
            name="T_take",
            tag="injective",
        )

    return builder.call_te(value, x, indices, primfunc_name_hint="take")
