# SPDX-License-Identifier: Apache-2.0
"""`Routine`: a PrimFunc that a numerics provides for one operator, with the constants that it reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.tir.emit import TensorSpec

Array = npt.NDArray[Any]

FUSED = 1
"""TOpPattern kBroadcast: FuseOps may fuse it into its input's producer. (0, kElemWise, is taken for no pattern.)"""

PRODUCT = 4
"""TOpPattern kOutEWiseFusable: FuseOps may fuse elementwise consumers into it."""

FUSED_ALONE = 8
"""TOpPattern kOpaque: FuseOps leaves it alone."""

KERNEL = "kernel"
"""Attribute of a function whose body is written as a kernel, so that nothing is left to schedule: the kernel's name."""

# Dtype of shapes and loop variables, as in Relax: FuseTIR requires equal buffers in the functions that it fuses.
_INDEX = "int64"


@dataclass(frozen=True)
class Routine:
    """A PrimFunc whose arguments are the run-time tensors in order, then `constants`, then the output.

    Attributes:
        func: The PrimFunc. Its attribute "numerics" names the computation, such as "qdq.requantize"; further attributes
            are parameters of the computation. `FuseTIR` drops these attributes; passes before it can read them.
        constants: One array per constant argument.
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
        what: Value of the attribute "numerics".
        arguments: TE placeholders in order, the output last.
        constants: Values of the last placeholders before the output.
        pattern: The attribute "op_pattern" (TOpPattern), if TVM cannot derive it from the loops; else None.
        parameters: Further attributes of the PrimFunc.
    """
    func = te.create_prim_func(list(arguments), index_dtype_override=_INDEX)
    # No symbol is set, because the module to which the function is added sets it.
    func = func.without_attr("global_symbol")
    func = func.with_attrs({"numerics": what, **parameters})
    if pattern is not None:
        func = func.with_attr("op_pattern", pattern)
    return Routine(func, tuple(np.asarray(c, order="C") for c in constants))


def routine_of_loops(
    what: str,
    arguments: Sequence[TensorSpec],
    emit: Callable[[list[tirx.Buffer]], None],
    **parameters: int | float | str,
) -> Routine:
    """Build a `Routine` without constants from loops in TVMScript's builder; FuseOps does not fuse it.

    Args:
        what: Value of the attribute "numerics".
        arguments: Shape and dtype of each argument, the output last.
        emit: Emits the body, given the arguments' buffers.
        parameters: Further attributes of the PrimFunc.
    """
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_attr({"tirx.noalias": True})
            T.func_name("loops")
            handles = [T.arg(f"arg{index}", T.handle()) for index in range(len(arguments))]
            emit(
                [
                    T.match_buffer(handle, shape, dtype)
                    for handle, (shape, dtype) in zip(handles, arguments, strict=True)
                ]
            )
        func = builder.get()
    func = func.without_attr("global_symbol").with_attr("op_pattern", FUSED_ALONE)
    return Routine(func.with_attrs({"numerics": what, **parameters}))


def broadcast(tensor: te.Tensor, shape: Sequence[int], indices: Sequence[tirx.Var]) -> tirx.Expr:
    """Return the element of `tensor` for `indices` into `shape`, to which the tensor broadcasts."""
    rank = len(tensor.shape)
    own = zip(tensor.shape, shape[len(shape) - rank :], indices[len(indices) - rank :], strict=True)
    # Index by the loop variable itself if possible, because TVM recognises elementwise code by it.
    return tensor(*(index if int(dim) == extent else 0 for dim, extent, index in own))
