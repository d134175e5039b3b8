# SPDX-License-Identifier: Apache-2.0
"""Kernels for any number of rows, by applying a kernel for a fixed number of rows to chunks of that many rows.

    k(x: [8, K], w, y: [8, N])    →    k(x: [n, K], w, y: [n, N]): for i in ceil(n / 8):
                                                                     at = max(0, min(8 i, n - 8))
                                                                     k(x[at : at + 8], w, y[at : at + 8])

The last chunk overlaps the one before it, and computes some rows once more. If there are fewer rows than a chunk has,
the memory behind them is read and written, too: buffers must have space for a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr, Var
from tvm.s_tir.stmt import SBlockRealize
from tvm.tirx.buffer import BufferType
from tvm_ffi import structural_map

from schedules.tir.emit import i64, in_root_block


@dataclass(frozen=True)
class RowArgument:
    """An argument of the kernel for any number of rows.

    Attributes:
        shape: Shape, which depends on the number of rows.
        row: Distance in elements between two rows, which are contiguous; 0 for an argument that all rows share.
    """

    shape: tuple[Expr | int, ...]
    row: int


def in_chunks(
    func: tirx.PrimFunc, arguments: Sequence[RowArgument], rows: Expr, chunk: int, *, parallel: bool
) -> tirx.PrimFunc:
    """Return the kernel for any number of rows.

    Args:
        func: The kernel for `chunk` rows as `kernel_function` makes it, in a root block: it reads and writes
            flat views.
        arguments: One entry per argument, in order.
        rows: Number of rows, as an expression of variables in the arguments' shapes.
        chunk: Number of rows that `func` takes.
        parallel: Whether the runtime's threads share the chunks; `func` must then run on one thread.
    """
    index, at = tirx.Var("chunk", "int64"), tirx.Var("at", "int64")
    params: list[Var] = []
    new: dict[Var, Expr] = {}
    for old, argument in zip(func.params, arguments, strict=True):
        assert isinstance(old.ty, BufferType)
        offset = old.ty.elem_offset
        if argument.row:
            outer = tirx.Var(f"{offset.name}_0", "int64")
            new[offset] = outer + at * i64(argument.row)
            params.append(_argument(old, argument.shape, outer))
            new[old] = params[-1]
        else:
            params.append(old)
    assert isinstance(func.body, SBlockRealize)
    body = structural_map(func.body.block.body, [(Var, lambda var: new.get(var, var))])
    start = tirx.max(i64(0), tirx.min(index * i64(chunk), rows - i64(chunk)))
    step = tirx.SeqStmt([tirx.Bind(at, start), body])
    count = tirx.floordiv(rows + i64(chunk - 1), i64(chunk))
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    loop = tirx.For(index, i64(0), count, kind, step)
    return in_root_block(tirx.PrimFunc(params, loop, func.ret_type, attrs=func.attrs))


def _argument(old: Var, shape: Sequence[Expr | int], offset: Var) -> Var:
    ty = old.ty
    return tirx.decl_buffer(
        list(shape), str(ty.dtype), old.name, elem_offset=offset, offset_factor=1, layout=None
    )
