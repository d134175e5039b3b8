# SPDX-License-Identifier: Apache-2.0
"""Weight panels of int8 products, and their headers: initial accumulators and requantisation constants per column.

A panel is the weights of the columns that one register tile multiplies. Its header has an offset, a multiplier and an
addend for each column. If the fused requantisation (see `requantize_fused`) is exact for all columns of a panel, these
are its constants; otherwise they are the constants of the form "biased", with `NOT_FUSED` as addend. The choice depends
on the weights, but equal workloads share one kernel, which therefore has code for both. The header of a dynamic product
has weight sums, scales and biases (see `row_scales`) in the order of columns. For nine-bit weights, the shifts follow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.intrinsics.quad import LAST, QUAD, quad
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.reload import reloaded
from schedules.kernels.common import tiling
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues import row_scales
from schedules.kernels.epilogues.requantize import Form
from schedules.kernels.epilogues.requantize_fused import fused_constants
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.numerics.binary32 import MAGIC_BITS
from schedules.tir.emit import load, take

HEADER = 3
"""Vectors of a header per vector of columns, without shifts."""

OFFSETS, MULTIPLIERS, ADDENDS, SHIFTS = range(HEADER + 1)

NOT_FUSED = 0x7FC00000
"""The bits of a NaN, which no fused form adds."""


@dataclass(frozen=True)
class Headers:
    """Layout of the headers of column panels: the per-column constants that the tile of a panel loads.

    Attributes:
        product: The product, for its requantisation.
        vectors: Number of vectors of four accumulators per row, or per pair of rows, of a panel.
        rows: Number of rows for which the header repeats offsets and addends, so that one load reads them for all.
    """

    product: IntegerProduct
    vectors: int
    rows: int = 1

    @property
    def bytes(self) -> int:
        """Size of one panel's header in bytes."""
        return self.at(HEADER + self.product.shifted)

    def at(self, number: int) -> int:
        """Return the offset in bytes, in a panel's header, of constant `number` (`OFFSETS`, `MULTIPLIERS`, ...)."""
        return sum(self.vectors * self._times(before) * VECTOR for before in range(number))

    def pack(self, columns: Sequence[Array], panels: int) -> Array:
        """Pack arrays of 32-bit constants, one element per column, into all panels' headers, a flat int8 array."""
        of_panels = (each.reshape(panels, -1).view(np.int8) for each in columns)
        parts = [np.tile(each, self._times(number)) for number, each in enumerate(of_panels)]
        return np.concatenate(parts, axis=1).ravel()

    def _times(self, number: int) -> int:
        return self.rows if number in (OFFSETS, ADDENDS) else 1


@dataclass(frozen=True)
class Panels:
    """The division of a product's columns into panels.

    Attributes:
        product: The product whose columns are packed.
        columns: Columns of a panel.
        vectors: Number of vectors of four accumulators per row, or per pair of rows, of a panel.
        depth: Number of weights of each packed column, padding included.
    """

    product: IntegerProduct
    columns: int
    vectors: int
    depth: int

    @property
    def tiles(self) -> int:
        """Number of panels in a group; the last is padded with zero columns."""
        return -(-self.product.columns // self.columns)

    @property
    def weight_bytes(self) -> int:
        """Bytes of one panel's weights."""
        return self.columns * self.depth

    @property
    def headers(self) -> Headers:
        """Layout of the headers of all panels."""
        return Headers(self.product, self.vectors)

    @property
    def sizes(self) -> tuple[int, int]:
        """(bytes of all packed weights, bytes of all headers)."""
        count = self.product.groups * self.tiles
        return count * self.weight_bytes, count * self.headers.bytes

    def pack(
        self,
        workload: Workload,
        constants: Sequence[Array],
        weights: Array,
        in_panels: Callable[[Array], Array],
        in_lanes: Callable[[Array], Array] = np.asarray,
    ) -> tuple[Array, Array]:
        """Pack the weights and the headers.

        Args:
            workload: The workload of the product.
            constants: The workload's constants.
            weights: int8 [groups, columns, packed depth], minus their shifts.
            in_panels: Packs [columns, packed depth] into panels.
            in_lanes: Reorders one value per column to the order of the accumulators' lanes.
        """
        product, width = self.product, self.tiles * self.columns
        padded = np.zeros((product.groups, width, weights.shape[-1]), np.int8)
        padded[:, : product.columns] = weights
        columns = [in_lanes(each) for each in self._columns(workload, constants, width)]
        packed = in_panels(padded.reshape(-1, weights.shape[-1])).ravel()
        return packed, self.headers.pack(columns, product.groups * self.tiles)

    def _columns(self, workload: Workload, constants: Sequence[Array], width: int) -> tuple[Array, ...]:
        product, dynamic = self.product, self.product.dynamic
        weights = weights_by_column(workload, constants, product)
        shifts = (tiling.by_group(product_s8.shifts_of(weights), product, width),) * product.shifted
        if dynamic:
            by_column = weights.reshape(-1, weights.shape[-1])
            values = row_scales.columns_of(workload, constants, by_column, dynamic.flip)
            return (*(tiling.by_group(each, product, width) for each in values), *shifts)
        offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
        is_real = np.ones(product.groups * product.columns, np.bool_)
        cut = (tiling.by_group(each, product, width) for each in (offset, m, is_real))
        return (*fused_by_panel(workload, product, self.columns, *cut), *shifts)


def fused_by_panel(
    workload: Workload, product: IntegerProduct, columns: int, offset: Array, m: Array, is_real: Array
) -> tuple[Array, Array, Array]:
    """Return each column's offset, multiplier and addend: fused for panels where that is exact, else of `product.form`.

    Args:
        workload: Workload of the product.
        product: The product that the constants belong to.
        columns: Number of columns of a panel.
        offset: int32 offset of each column.
        m: float32 multiplier of each column.
        is_real: Whether a column belongs to the product; the others are padding of a panel.
    """
    to = product.to
    nothing = np.full(m.shape, NOT_FUSED, np.int32).view(np.float32)
    if not product.fused or workload.magnitude is None:
        return offset, m, nothing
    fused = fused_constants(m, 1 << workload.magnitude.accumulator, to.zero_point, to.low, to.high)
    whole = (fused.proven | ~is_real).reshape(-1, columns).all(1).repeat(columns)
    return (
        np.where(whole, offset.astype(np.int64) - MAGIC_BITS + fused.base, offset).astype(np.int32),
        np.where(whole, fused.m, m),
        np.where(whole, fused.addend, nothing),
    )


Addends = Callable[[Sequence[int]], list[ir.Expr]]
"""Loads the addends (float32x4) of vectors of columns."""


class Starts(Protocol):
    """Interface of the initial values of a tile's accumulators."""

    def offsets(self) -> list[ir.Expr]:
        """Return the initial accumulators of any row, one int32x4 per vector of columns."""

    def starts(self, row: int) -> list[ir.Expr]:
        """Return the values of `offsets` for one row (or pair of rows), in registers that its sums may overwrite."""


@dataclass(frozen=True)
class Zeros:
    """Initial accumulators of 0."""

    vectors: int

    def offsets(self) -> list[ir.Expr]:
        """Return `vectors` zero vectors."""
        return [tirx.Broadcast(tirx.IntImm("int32", 0), LANES)] * self.vectors

    def starts(self, row: int) -> list[ir.Expr]:
        """Return the initial accumulators, which are the same for all rows."""
        return self.offsets()


class Header:
    """Emits the loads of one panel's header, and the branch between fused and other requantisation.

    Attributes:
        reload: Whether constants that instructions overwrite are loaded again before each use instead of copied.
        by_quads: Whether one instruction loads four vectors of the header, within the context manager `quads`; then
            accumulators must be in the first registers, in their order.
    """

    def __init__(
        self,
        headers: Headers,
        buffer: tirx.Buffer,
        panel: ir.Expr,
        before: int,
        reload: bool,
        by_quads: bool = False,
    ) -> None:
        self.headers, self.product, self.vectors = headers, headers.product, headers.vectors
        self.buffer, self.reload, self.by_quads = buffer, reload, by_quads and reload
        self.start = T.Bind(panel * headers.bytes + before)
        # Load once, before the branches: otherwise each branch would contain these loads.
        self._kept = [] if reload else self.offsets()

    def offsets(self) -> list[ir.Expr]:
        """Return the initial accumulators of any row, one int32x4 per vector of columns."""
        return self._vectors(OFFSETS, "int32x4")

    def starts(self, row: int = 0) -> list[ir.Expr]:
        """Return the initial accumulators of a row. With `reload`, call this within the context manager `reloads`."""
        if not self.reload:
            return self._kept
        found: list[ir.Expr] = []
        at, left = self._at(OFFSETS), self.vectors
        while self.by_quads and left >= QUAD:
            found += quad(self.buffer, at + VECTOR * len(found), row * self.vectors + len(found))
            left -= QUAD
        if left:
            rest = T.Bind(reloaded(self.buffer, at + VECTOR * len(found), left))
            found += [take(rest, LANES * v, LANES) for v in range(left)]
        return found

    def starts_of(self, rows: int) -> list[list[ir.Expr]]:
        """Return the initial accumulators of `rows` rows; one load reads them for all rows that the header repeats."""
        together = self.headers.rows
        found: list[list[ir.Expr]] = []
        while self.by_quads and together * self.vectors == QUAD and len(found) + together <= rows:
            both = quad(self.buffer, self._at(OFFSETS), len(found) * self.vectors)
            found += [both[v : v + self.vectors] for v in range(0, QUAD, self.vectors)]
        return found + [self.starts(row) for row in range(len(found), rows)]

    def of_columns(self, v: int) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
        """Return weight sums (int32x4), scales and biases (float32x4) of column vector `v` of a dynamic product."""
        sums, scale, bias = (
            T.Bind(tirx.reinterpret(dtype, load(self.buffer, self._at(number) + VECTOR * v, VECTOR)))
            for number, dtype in ((OFFSETS, "int32x4"), (MULTIPLIERS, "float32x4"), (ADDENDS, "float32x4"))
        )
        return sums, scale, bias

    def shifts(self) -> list[ir.Expr]:
        """Return the shifts of nine-bit weights, int32x4 per vector of columns."""
        return self._vectors(SHIFTS, "int32x4")

    def requantized(self, emit: Callable[[Form, list[ir.Expr], Addends | None], None]) -> None:
        """Emit the requantisation of a tile: a branch per possible form, each by `emit`(form, multipliers, addends)."""
        form, m = self.product.form, self._vectors(MULTIPLIERS, "float32x4")
        if not self.product.fused:
            emit(form, m, None)
            return
        addends = self._addends()
        first = load(self.buffer, self._at(ADDENDS), np.dtype(np.int32).itemsize)
        with T.If(tirx.reinterpret("int32", first) != NOT_FUSED):
            with T.Then():
                emit("fused", m, addends)
            with T.Else():
                emit(form, m, None)

    def _addends(self) -> Addends:
        if self.reload:
            return self._addends_reloaded
        # Load before the branch, so that LLVM's scheduler can hide the latency.
        found = self._vectors(ADDENDS, "float32x4")
        return lambda vectors: [found[v] for v in vectors]

    def _addends_reloaded(self, vectors: Sequence[int]) -> list[ir.Expr]:
        first, count = vectors[0], len(set(vectors))
        at = self._at(ADDENDS) + VECTOR * first
        if self.by_quads and count * self.headers.rows == len(vectors) == QUAD:
            return [tirx.reinterpret("float32x4", each) for each in quad(self.buffer, at, LAST)]
        found = [T.Bind(reloaded(self.buffer, at, count)) for _ in range(len(vectors) // count)]
        return [
            tirx.reinterpret("float32x4", take(each, LANES * v, LANES))
            for each in found
            for v in range(count)
        ]

    def _at(self, number: int) -> ir.Expr:
        return self.start + self.headers.at(number)

    def _vectors(self, number: int, dtype: str) -> list[ir.Expr]:
        loads = [load(self.buffer, self._at(number) + VECTOR * v, VECTOR) for v in range(self.vectors)]
        return [T.Bind(tirx.reinterpret(dtype, vector)) for vector in loads]
