# SPDX-License-Identifier: Apache-2.0
"""Helpers by which kernels emit TensorIR; they must be called within an open `IRBuilder`.

All loop variables and offsets are int64: with int32, LLVM keeps two sign extensions per loop.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tvm import ir, tirx
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

TensorSpec = tuple[tuple[int, ...], str]
"""Shape and dtype of a tensor."""


def i64(value: int) -> tirx.IntImm:
    """Return an int64 constant."""
    return tirx.IntImm("int64", value)


def load(buffer: tirx.Buffer, offset: ir.Expr, lanes: int) -> ir.Var:
    """Emit the load of `lanes` consecutive elements of a flat buffer from `offset` on, bound to a variable."""
    dtype = buffer.dtype if lanes == 1 else f"{buffer.dtype}x{lanes}"
    return T.Bind(buffer.vload([offset], dtype))


def store(buffer: tirx.Buffer, value: ir.Expr, offset: ir.Expr, lanes: int) -> None:
    """Emit the store of a vector of `lanes` elements to a flat buffer from `offset` on."""
    T.buffer_store(buffer, value, [offset if lanes == 1 else tirx.Ramp(offset, 1, lanes)])


def converted(value: ir.Expr, dtype: str) -> ir.Expr:
    """Cast a scalar or vector to another element dtype; return it unchanged if it has that dtype."""
    own, _, lanes = str(value.ty.dtype).partition("x")
    return value if own == dtype else T.Bind(tirx.Cast(f"{dtype}x{lanes}" if lanes else dtype, value))


def take(vector: ir.Expr, first: int, lanes: int) -> ir.Expr:
    """Return `lanes` lanes of a vector from lane `first` on."""
    return tirx.Shuffle([vector], list(range(first, first + lanes)))


def splat(value: float, dtype: str, lanes: int) -> ir.Expr:
    """Return a float constant in every lane of a vector, or as a scalar if `lanes` is 1."""
    scalar = tirx.FloatImm(dtype, value)
    return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)


def importing(definitions: str) -> AbstractContextManager[Any]:
    """Open a scope whose code may call the functions that `definitions`, LLVM IR, define, by `call_extern`."""
    scope: AbstractContextManager[Any] = T.attr(tirx.IntImm("int32", 0), "pragma_import_llvm", definitions)
    return scope


EXACT = "exact_buffers"
"""Attribute of functions whose buffers are as large as they need, and whose loops hold no condition that could stand
outside: no pass has to look for either."""


def in_root_block(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a copy of the function with its body in a root block, which passes that detect views require."""
    body = SBlockRealize([], True, SBlock([], [], [], "root", func.body))
    return func.with_body(body).with_attr(EXACT, True)


class Function:
    """A kernel under construction; `prim_func` is set when its `kernel_function` block ends."""

    def __init__(self) -> None:
        self.prim_func: tirx.PrimFunc | None = None
        self.buffers: list[tirx.Buffer] = []


OVERWRITES = "overwrites"
"""Attribute of kernels whose result may overwrite an operand: positions of such operands, then of the result."""


IN_PLACE = "in_place"
"""Attribute of functions that change an operand: for each, its position and the position of the result it becomes. The
function reads and writes the result, which is the operand's memory, or was copied from the operand before the call."""


@contextmanager
def kernel_function(
    name: str, arguments: Sequence[TensorSpec], overwritten: Sequence[int] = ()
) -> Iterator[Function]:
    """Open a PrimFunc whose arguments are dense, non-overlapping tensors; the `with` block emits its body.

    Args:
        name: Symbol of the function.
        arguments: Shape and dtype of each argument.
        overwritten: Positions of arguments; the last one may begin where one of these does.

    Yields:
        The function; `buffers` holds a flat view of each argument. Read `prim_func` after the block.
    """
    function = Function()
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name(name)
            T.func_attr({"global_symbol": name, "tirx.noalias": not overwritten})
            if overwritten:
                T.func_attr({OVERWRITES: [*overwritten, len(arguments) - 1]})
            handles = [T.arg(f"arg{position}", T.handle()) for position in range(len(arguments))]
            # Any offset is allowed, because the memory planner places each tensor in its storage.
            offsets = [tirx.Var(f"offset{position}", "int64") for position in range(len(arguments))]
            tensors = [
                T.match_buffer(handle, shape, dtype, elem_offset=offset, offset_factor=1, layout=None)
                for handle, offset, (shape, dtype) in zip(handles, offsets, arguments, strict=True)
            ]
            for tensor, offset, (shape, dtype) in zip(tensors, offsets, arguments, strict=True):
                flat = T.decl_buffer(
                    (math.prod(shape),), dtype, data=tensor.data, elem_offset=offset, layout=None
                )
                function.buffers.append(flat)
            yield function
        function.prim_func = builder.get()
