# SPDX-License-Identifier: Apache-2.0
"""Emission of loops over axes, and the division of an axis into vectors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.generic.stages import Axis
from schedules.kernels.common.threads import PARALLEL_TASKS, each_of
from schedules.tir.emit import i64


@contextmanager
def loops(axes: Sequence[Axis], parallel: bool = False) -> Iterator[Mapping[ir.Var, ir.Expr]]:
    """Open one loop per axis, outermost first; if `parallel`, the runtime's threads share the outer loops.

    Yields:
        The value of each axis.
    """
    at: dict[ir.Var, ir.Expr] = {}
    with ExitStack() as stack:
        shared = 0
        if parallel and axes:
            while shared < len(axes) and math.prod(a.extent for a in axes[:shared]) < PARALLEL_TASKS:
                shared += 1
            rest = stack.enter_context(each_of(math.prod(a.extent for a in axes[:shared]), parallel=True))
            for axis in reversed(axes[1:shared]):
                at[axis.var] = T.Bind(tirx.floormod(rest, i64(axis.extent)))
                rest = T.Bind(tirx.floordiv(rest, i64(axis.extent)))
            at[axes[0].var] = rest
        for axis in axes[shared:]:
            at[axis.var] = stack.enter_context(T.serial(i64(0), i64(axis.extent)))
        yield at


def lanes_for(extent: int, most: int) -> int:
    """Return the largest power of two that is at most `most` and at most `extent`."""
    return min(most, 1 << (extent.bit_length() - 1))


def cover(extent: int, lanes: int) -> tuple[int, int | None]:
    """Return (number of full vectors in an axis, start of another vector that ends with the axis, or None).

    The additional vector, for a remainder, overlaps the one before it, and recomputes the same values.
    """
    full, rest = divmod(extent, lanes)
    return full, extent - lanes if rest else None


@contextmanager
def spread(count: int, parallel: bool) -> Iterator[ir.Expr]:
    """Open a loop over `count` vectors; the runtime's threads share it if it is `parallel` and long enough."""
    with each_of(count, parallel and count >= PARALLEL_TASKS) as index:
        yield index
