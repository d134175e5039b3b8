# SPDX-License-Identifier: Apache-2.0
"""Loops of scatters with one index per axis; TVM's loops flatten all axes, so that indices cannot be checked.

y = x; for i: y[…, t[i], …] ∘= u[i]        in ascending i, as the front ends define
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tvm import ir, relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.tir.emit import i64

_JOINS: dict[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "update": lambda _old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": tirx.min,
    "max": tirx.max,
    "mean": lambda old, new: (old + new) / 2,
}
_Place = Callable[[Sequence[ir.Expr], tirx.Buffer, Sequence[ir.Expr]], list[ir.Expr]]
"""Function from the sizes of y (as expressions), the indices, and a position in the indices to the position in y."""

_Shape = Callable[[tirx.Buffer, tirx.Buffer], Sequence[ir.Expr]]
"""Function from the PrimFunc's buffers of indices and updates to the extents of the loops over updates. The tensors of
the Relax call have other size variables than these buffers."""


def scatter_elements(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise y[i, t[i, j], …] ∘= u[i, j, …], a scatter along one axis. Negative indices count from the end."""
    axis = int(call.attrs.axis) % len(call.args[0].ty.shape)

    def place(sizes: Sequence[ir.Expr], places: tirx.Buffer, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        index = _int64(places[tuple(at)])
        index = tirx.Select(index < i64(0), index + _int64(sizes[axis]), index)
        return [*at[:axis], index, *at[axis + 1 :]]

    # PyTorch allows updates that are larger than the indices.
    return _scatter(builder, call, lambda places, _updates: places.ty.shape, place)


def scatter_nd(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise y[t[i, 0], t[i, 1], …, j] ∘= u[i, j], a scatter by index vectors along the last axis."""
    indices = call.args[1]
    count, rank = int(indices.ty.shape[-1]), len(indices.ty.shape) - 1

    def place(_: Sequence[ir.Expr], places: tirx.Buffer, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        vector = [_int64(places[(*at[:rank], i64(k))]) for k in range(count)]
        return [*vector, *at[rank:]]

    return _scatter(builder, call, lambda _places, updates: updates.ty.shape, place)


def _scatter(builder: relax.BlockBuilder, call: ir.Call, shape: _Shape, place: _Place) -> ir.Expr:
    join = _JOINS[str(call.attrs.reduction)]

    def emit(taken: Sequence[tirx.Buffer], result: tirx.Buffer) -> tirx.Stmt:
        data, places, updates = taken
        with IRBuilder() as ib, T.seq_scope():
            with _loops(data.ty.shape) as at:
                T.buffer_store(result, data[tuple(at)], at)
            with _loops(shape(places, updates)) as at:
                target = place(data.ty.shape, places, at)
                new = join(result[tuple(target)], updates[tuple(at)])
                T.buffer_store(result, new, target)
        # Return only the body: the scope's attribute, which joins the two loops here, would cause a warning in code
        # generation.
        return ib.get().body

    def computed(*tensors: te.Tensor) -> te.Tensor:
        return te.extern(
            [tensors[0].shape],
            list(tensors),
            lambda taken, made: emit(taken, made[0]),
            dtype=str(call.ty.dtype),
            name="scatter",
        )

    return builder.call_te(computed, *call.args, primfunc_name_hint="scatter")


@contextmanager
def _loops(shape: Sequence[ir.Expr]) -> Iterator[list[ir.Expr]]:
    with ExitStack() as stack:
        yield [stack.enter_context(T.serial(_int64(size))) for size in shape]


def _int64(value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)
