# SPDX-License-Identifier: Apache-2.0
"""Weight panels of int8 products, and their headers: initial accumulators and requantisation constants per column.

A panel's header has an offset, a multiplier and an addend for each column. If all columns of a panel allow the fused
form (see `requantize_fused`), these are its constants; otherwise they are those of the form "biased", with `NOT_FUSED`
as addend. Which one depends on the weights, but equal workloads share one kernel, so it has code for both. The header
of a dynamic product has weight sums, scales and biases (see `row_scales`) in the order of columns. For nine-bit
weights, the shifts follow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.intrinsics.reload import reloaded
from schedules.kernels.common import tiling
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import VECTOR
from schedules.kernels.epilogues import row_scales
from schedules.kernels.epilogues.requantize import MAGIC_BITS, Form
from schedules.kernels.epilogues.requantize_fused import fused_constants
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import load, take

HEADER = 3
"""Vectors of a header per vector of columns, without shifts."""

OFFSETS, MULTIPLIERS, ADDENDS, SHIFTS = range(HEADER + 1)

LANES = 4
"""int32 of a vector."""

NOT_FUSED = 0x7FC00000
"""The bits of a NaN, which no fused form adds."""


@dataclass(frozen=True)
class Panels:
    """The division of a product's columns into panels.

    Attributes:
        product: The product whose columns are packed.
        columns: Columns of a panel.
        vectors: Vectors of four accumulators that a row, or a pair of rows, has in a panel.
        depth: Depth of weights for each column, in the order that they are packed in.
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
    def header_bytes(self) -> int:
        """Bytes of one panel's header."""
        return self.vectors * VECTOR * (HEADER + self.product.shifted)

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of all weights and of all headers."""
        count = self.product.groups * self.tiles
        return count * self.weight_bytes, count * self.header_bytes

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
        header = [
            in_lanes(each).reshape(product.groups * self.tiles, -1).view(np.int8)
            for each in self._columns(workload, constants, width)
        ]
        return in_panels(padded.reshape(-1, weights.shape[-1])).ravel(), np.concatenate(
            header, axis=1
        ).ravel()

    def _columns(self, workload: Workload, constants: Sequence[Array], width: int) -> tuple[Array, ...]:
        product, dynamic = self.product, self.product.dynamic
        weights = weights_by_column(workload, constants, product)
        shifts = (tiling.by_group(product_s8.shifts_of(weights), product, width),) * product.shifted
        if dynamic:
            by_column = weights.reshape(-1, weights.shape[-1])
            values = row_scales.columns_of(workload, constants, by_column, dynamic.flip)
            return (*(tiling.by_group(each, product, width) for each in values), *shifts)
        offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
        cut = (tiling.by_group(each, product, width) for each in (offset, m))
        return (*self._fused(workload, *cut), *shifts)

    def _fused(self, workload: Workload, offset: Array, m: Array) -> tuple[Array, Array, Array]:
        """Offsets, multipliers and addends, by panel those of the fused form or of the product's."""
        product, to = self.product, self.product.to
        nothing = np.full(m.shape, NOT_FUSED, np.int32).view(np.float32)
        if not product.fused or workload.magnitude is None:
            return offset, m, nothing
        bound = 1 << workload.magnitude.accumulator
        fused = fused_constants(m, bound, to.zero_point, to.low, to.high)
        is_real = tiling.by_group(
            np.ones(product.groups * product.columns, np.bool_), product, m.size // product.groups
        )
        whole = (fused.proven | ~is_real).reshape(-1, self.columns).all(1).repeat(self.columns)
        return (
            np.where(whole, offset.astype(np.int64) - MAGIC_BITS + fused.base, offset).astype(np.int32),
            np.where(whole, fused.m, m),
            np.where(whole, fused.addend, nothing),
        )


class Starts(Protocol):
    """The initial values of a tile's accumulators."""

    def offsets(self) -> list[ir.Expr]:
        """Return an int32x4 for each vector of columns."""

    def starts(self) -> list[ir.Expr]:
        """Return the same vectors, loaded at the place of the call."""


@dataclass(frozen=True)
class Zeros:
    """Initial accumulators of 0."""

    vectors: int

    def offsets(self) -> list[ir.Expr]:
        """Return `vectors` zero vectors."""
        return [tirx.Broadcast(tirx.IntImm("int32", 0), LANES)] * self.vectors

    starts = offsets


class Header:
    """Emits the loads of one panel's header, and the branch between its requantisation forms."""

    def __init__(self, panels: Panels, buffer: tirx.Buffer, panel: ir.Expr, before: int) -> None:
        self.panels, self.buffer = panels, buffer
        self.start = T.Bind(panel * panels.header_bytes + before)

    def offsets(self) -> list[ir.Expr]:
        """Return the initial accumulators, int32x4."""
        return self._vectors(OFFSETS, "int32x4")

    def starts(self) -> list[ir.Expr]:
        """Return the initial accumulators, loaded at the place of the call, inside the scope `reloads`."""
        vectors = self.panels.vectors
        found = T.Bind(reloaded(self.buffer, self._at(OFFSETS), vectors))
        return [take(found, LANES * v, LANES) for v in range(vectors)]

    def of_columns(self, v: int) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
        """Return the weight sums (int32x4), scales and biases (float32x4) of four columns of a dynamic product."""
        sums, scale, bias = (
            T.Bind(tirx.reinterpret(dtype, load(self.buffer, self._at(number) + VECTOR * v, VECTOR)))
            for number, dtype in ((OFFSETS, "int32x4"), (MULTIPLIERS, "float32x4"), (ADDENDS, "float32x4"))
        )
        return sums, scale, bias

    def shifts(self) -> list[ir.Expr]:
        """Return the shifts of nine-bit weights, int32x4 per vector of columns."""
        return self._vectors(SHIFTS, "int32x4")

    def requantized(self, emit: Callable[[Form, list[ir.Expr], list[ir.Expr]], None]) -> None:
        """Emit the end of a tile: `emit` gets the requantisation form, its multipliers and addends (float32x4)."""
        form, m = self.panels.product.form, self._vectors(MULTIPLIERS, "float32x4")
        if not self.panels.product.fused:
            emit(form, m, [])
            return
        # Loaded before the branch, for the scheduler to hide.
        addend = self._vectors(ADDENDS, "float32x4")
        first = load(self.buffer, self._at(ADDENDS), np.dtype(np.int32).itemsize)
        with T.If(tirx.reinterpret("int32", first) != NOT_FUSED):
            with T.Then():
                emit("fused", m, addend)
            with T.Else():
                emit(form, m, [])

    def _at(self, number: int) -> ir.Expr:
        return self.start + number * self.panels.vectors * VECTOR

    def _vectors(self, number: int, dtype: str) -> list[ir.Expr]:
        loads = [load(self.buffer, self._at(number) + VECTOR * v, VECTOR) for v in range(self.panels.vectors)]
        return [T.Bind(tirx.reinterpret(dtype, vector)) for vector in loads]
