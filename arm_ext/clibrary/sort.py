# SPDX-License-Identifier: Apache-2.0
"""Kernels that sort: calls of TVM's runtime become calls of the C library's own sort functions, in files/model.c.

    topk(x, values, indices): call_packed("tvm.contrib.sort.topk", x, values, indices, 3, -1, "both", False)
    →
    sort_float32_int64(x, values, indices, 2, 9, 1, 3, 0)

It selects by a heap of indices, in the memory of the indices. Equal elements stay in their order, as in the runtime.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Call, Expr, PrimType
from tvm_ffi import structural_walk

from arm_ext.clibrary.lengths import VARIABLE, is_open, product_text

_PACKED = ("tirx.tvm_call_packed", "tirx.tvm_call_cpacked")
_FUNCTIONS = ("tvm.contrib.sort.topk", "tvm.contrib.sort.sort", "tvm.contrib.sort.argsort")
_COMPARED = ("float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_INDICES = ("int32", "int64")


@dataclass(frozen=True)
class Sort:
    """A sort of the rows of a tensor [outer, length, inner] along its second axis.

    Attributes:
        dtype: Type of the elements.
        index: Type of the indices.
        outer: Rows before the axis.
        length: Elements of a row.
        inner: Number of elements from one element of a row to the next.
        count: How many elements of each row are wanted.
        rising: Whether the least elements come first.
        has_values: Whether the kernel returns elements.
        has_indices: Whether the kernel returns indices.
    """

    dtype: str
    index: str
    outer: int | str
    length: int | str
    inner: int | str
    count: int | str
    rising: bool
    has_values: bool
    has_indices: bool

    @property
    def function(self) -> str:
        """Name of the C function that sorts."""
        return f"sort_{self.dtype}_{self.index}"

    @property
    def numbers(self) -> tuple[int | str, ...]:
        """Arguments of the C function after the tensors: numbers or C expressions."""
        return (self.outer, self.length, self.inner, self.count, int(self.rising))


def packed_calls(func: tirx.PrimFunc) -> list[tuple[str, Call]]:
    """Return the calls of a kernel to functions of TVM's runtime: name and call."""
    calls: list[Call] = []
    structural_walk(func.body, [(Call, calls.append)])
    packed = (call for call in calls if str(getattr(call.op, "name", "")).startswith(_PACKED))
    return [(str(call.args[0].value), call) for call in packed]


def sort_of(func: tirx.PrimFunc, length: str = VARIABLE) -> Sort | None:
    """Return the sort that a kernel computes; None if it computes more, or if C cannot compare the elements.

    Args:
        func: The kernel.
        length: The length that the kernel's sizes follow from, as a C expression.
    """
    calls = packed_calls(func)
    stores: list[tirx.BufferStore] = []
    structural_walk(func.body, [(tirx.BufferStore, stores.append)])
    if len(calls) != 1 or calls[0][0] not in _FUNCTIONS or stores:
        return None
    name, call = calls[0]
    buffers = [param.ty for param in func.params if not isinstance(param.ty, PrimType)]
    dtype, shape = str(buffers[0].dtype), list(buffers[0].shape)
    if name.endswith(".topk"):
        count, axis, kind, rising = call.args[-4:]
        if is_open([count]):
            return None
        wanted, returned = int(count), str(kind.value)
    else:
        axis, rising = call.args[-2:]
        wanted, returned = 0, "indices" if name.endswith(".argsort") else "values"
    at = int(axis) % len(shape)
    index = str(buffers[-1].dtype) if returned != "values" else "int32"
    row = _size(shape[at : at + 1], length)
    if dtype not in _COMPARED or index not in _INDICES or (isinstance(row, str) and wanted > 1):
        return None  # top-k of a row of run-time length, which may have fewer than k elements
    return Sort(
        dtype,
        index,
        _size(shape[:at], length),
        row,
        _size(shape[at + 1 :], length),
        wanted if wanted > 0 else row,
        bool(int(rising)),
        has_values=returned != "indices",
        has_indices=returned != "values",
    )


def _size(dims: Sequence[Expr], length: str) -> int | str:
    """Return a product of sizes: a number, or a C expression if it is known only at run time."""
    text = product_text(dims, 1, length)
    return text if is_open(dims) else int(text)
