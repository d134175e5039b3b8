# SPDX-License-Identifier: Apache-2.0
"""Binary32 sums of binary16 products of a tile, double-buffered: an addition reads one copy, writes the other.

With a single copy, LLVM would promote the sums to registers, and spill.
"""

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.registers import LANES
from schedules.tir.emit import i64, load, splat, store

PART = 128
"""Sums of a buffer. TVM takes what is larger than these two copies, 1024 bytes, from its workspace, which costs some
600 instructions each time, and what is not from the stack."""


class HalfSums:
    """The double-buffered binary32 sums of one tile."""

    def __init__(self, size: int) -> None:
        """Emit the buffers of `size` sums."""
        self._sizes = [min(PART, size - at) for at in range(0, size, PART)]
        self._buffers = [T.alloc_buffer((2 * part,), "float32", layout=None) for part in self._sizes]

    def clear(self, size: int) -> None:
        """Emit zeros for the first `size` sums, in the copy that the first addition reads."""
        for at in range(0, size, LANES):
            self.store(i64(0), at, splat(0.0, "float32", LANES))

    @staticmethod
    def copy(added: ir.Expr) -> ir.Expr:
        """Return the index (0 or 1) of the copy that holds the sums after `added` additions."""
        return T.Bind(added & i64(1))

    def load(self, copy: ir.Expr, at: int) -> ir.Expr:
        """Emit the load of four sums of a copy, from index `at` on."""
        return load(*self._place(copy, at), LANES)

    def store(self, copy: ir.Expr, at: int, value: ir.Expr) -> None:
        """Emit the store of four sums of a copy, from index `at` on."""
        buffer, offset = self._place(copy, at)
        store(buffer, value, offset, LANES)

    def _place(self, copy: ir.Expr, at: int) -> tuple[tirx.Buffer, ir.Expr]:
        index, inside = divmod(at, PART)
        return self._buffers[index], copy * self._sizes[index] + inside
