# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and compute nothing."""

from collections.abc import Sequence

from tvm import relax

from arm_ext.frontends.graph import Value

R = relax.op


def concatenate(values: Sequence[Value], axis: int) -> Value:
    """Return values one after the other along an axis.

    Those without elements are left out, whatever their rank, as an empty KV cache may have another: TVM loads no
    empty constants.
    """
    full = [x for x in values if 0 not in x.shape] or values[-1:]
    return full[0] if len(full) == 1 else full[0].graph.hold(R.concat([x.full for x in full], axis))
