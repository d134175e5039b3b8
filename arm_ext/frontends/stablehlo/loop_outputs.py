# SPDX-License-Identifier: Apache-2.0
"""Tensors that an unrolled loop writes piece by piece, as one concatenation instead of one per iteration."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.graph import Graph, Shape, Value
from arm_ext.frontends.stablehlo.rearrange import sliced


@dataclass(frozen=True)
class _Piece:
    """A piece of a stack: elements `first` up to, but not including, `last` along the stack's axis."""

    expr: Expr
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first


class Stack(Value):
    """A value that consists of pieces along an axis, which are concatenated when the complete value is needed."""

    def __init__(self, graph: Graph, shape: Shape, axis: int, pieces: Sequence[_Piece]) -> None:
        """Store the pieces; `graph` is the graph in which their concatenation is emitted."""
        for name, value in {
            "shape": shape,
            "kept": None,
            "axis": axis,
            "pieces": pieces,
            "graph": graph,
        }.items():
            object.__setattr__(self, name, value)

    axis: int
    pieces: Sequence[_Piece]

    @cached_property
    def expr(self) -> Expr:
        """The concatenation of the pieces."""
        parts = [self._cut(piece) for piece in self.pieces]
        return parts[0] if len(parts) == 1 else self.graph.emit(relax.op.concat(parts, axis=self.axis))

    @property
    def dtype(self) -> str:
        """Dtype of the elements."""
        return str(self.pieces[0].expr.ty.dtype)

    @property
    def small(self) -> Shape:
        """Shape of the value."""
        return self.shape

    def replaced(self, start: int, update: Expr) -> "Stack":
        """Return the stack with the elements from `start` on replaced by `update`."""
        stop = start + int(update.ty.shape[self.axis])
        pieces = [
            *self._between(0, start),
            _Piece(update, 0, stop - start),
            *self._between(stop, self.shape[self.axis]),
        ]
        return Stack(self.graph, self.shape, self.axis, pieces)

    def part(self, start: int, stop: int) -> Expr | None:
        """Return the elements from `start` to `stop` if one piece contains them, else None."""
        pieces = list(self._between(start, stop))
        return self._cut(pieces[0]) if len(pieces) == 1 else None

    def _between(self, start: int, stop: int) -> Iterator[_Piece]:
        at = 0
        for piece in self.pieces:
            first, last = max(start, at), min(stop, at + piece.size)
            if first < last:
                yield _Piece(piece.expr, piece.first + first - at, piece.first + last - at)
            at += piece.size

    def _cut(self, piece: _Piece) -> Expr:
        sizes = [int(n) for n in piece.expr.ty.shape]
        begin, end = [0] * len(sizes), list(sizes)
        begin[self.axis], end[self.axis] = piece.first, piece.last
        return sliced(self.graph, piece.expr, begin, end)


def stacked(values: Graph, held: Value, axis: int) -> Stack:
    """Return a value as a stack along an axis; a value that is not one becomes a single piece."""
    if isinstance(held, Stack) and held.axis == axis:
        return held
    return Stack(values, held.shape, axis, [_Piece(held.full, 0, held.shape[axis])])
