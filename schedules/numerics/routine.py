# SPDX-License-Identifier: Apache-2.0
"""`Routine`: a PrimFunc that a numerics provides for one operator, with the constants that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

Array = npt.NDArray[Any]

FUSED = 1
"""TOpPattern kBroadcast: FuseOps may put it behind what computes its input. (It takes 0, kElemWise, for no pattern.)"""

PRODUCT = 4
"""TOpPattern kOutEWiseFusable: FuseOps may put elementwise steps behind it."""

FUSED_ALONE = 8
"""TOpPattern kOpaque: FuseOps leaves it alone."""

# Of shapes and loops: as Relax has it, so that FuseTIR finds the buffers of fused functions alike.
_INDEX = "int64"


@dataclass(frozen=True)
class Routine:
    """A PrimFunc whose arguments are the run-time tensors in order, then `constants`, then the output.

    Attributes:
        func: Its attribute "numerics" says what it computes, such as "qdq.requantize", and further attributes with
            which parameters: `FuseTIR` drops them, whoever comes before may read them.
        constants: One array for each constant argument.
    """

    func: tirx.PrimFunc
    constants: tuple[Array, ...] = ()


def routine(
    what: str,
    arguments: Sequence[te.Tensor],
    constants: Sequence[Array],
    *,
    pattern: int | None = None,
    **parameters: int | float | str,
) -> Routine:
    """Build a `Routine` from a TE expression.

    Args:
        what: Its attribute "numerics".
        arguments: Placeholders in order, the output last.
        constants: Values of the last placeholders before the output.
        pattern: TOpPattern, where TVM cannot read it off the loops.
        parameters: Further attributes.
    """
    func = te.create_prim_func(list(arguments), index_dtype_override=_INDEX)
    # A symbol is given by the module that the function joins.
    func = func.without_attr("global_symbol")
    func = func.with_attrs({"numerics": what, **parameters})
    if pattern is not None:
        func = func.with_attr("op_pattern", pattern)
    return Routine(func, tuple(np.asarray(c, order="C") for c in constants))


def broadcast(tensor: te.Tensor, shape: Sequence[int], indices: Sequence[tirx.Var]) -> tirx.Expr:
    """The element of `tensor` at `indices` of a shape that it broadcasts to; missing leading axes are added."""
    rank = len(tensor.shape)
    own = zip(tensor.shape, shape[len(shape) - rank :], indices[len(indices) - rank :], strict=True)
    # An index where there is one: elementwise code is known by it.
    return tensor(*(index if int(dim) == extent else 0 for dim, extent, index in own))
