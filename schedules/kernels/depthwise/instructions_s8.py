# SPDX-License-Identifier: Apache-2.0
"""Instructions for int8 depthwise sums of eight channels: SDOT over four rows, or SMULL and SMLAL over two or one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.registers import VECTOR
from schedules.intrinsics.sdot import sdot
from schedules.intrinsics.smull import saddw, smlal, smull
from schedules.intrinsics.vector import high, low, zip_halves
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.depthwise.input_rows_s8 import GROUP, Taps
from schedules.kernels.gemm.product_s8 import flip
from schedules.kernels.tiles.int16_chains import PAIR
from schedules.kernels.tiles.mlal_tile import LEAST
from schedules.tir.emit import load

CHANNELS = 8
"""Number of channels that are computed together."""

HALVES = 2
"""Vectors of four channels' accumulators."""


class Engine(ABC):
    """Emission and cost of the instructions that sum int8 products of eight channels.

    Attributes:
        group: Number of rows whose products are summed at once.
        registers: Number of registers that hold one column of a group.
        overwrites: Whether the instruction overwrites the accumulators that it adds to.
    """

    group: int
    registers: int
    overwrites: bool

    @abstractmethod
    def loading(self, flipped: bool) -> Cost:
        """Return the cost of `column`, its loads included."""

    @abstractmethod
    def adding(self, taps: Taps) -> Cost:
        """Return the cost of `add`."""

    @abstractmethod
    def pack(self, w: Array, taps: Taps) -> Array:
        """Pack the weights of one product, [block, 8 channels, kernel rows], to [block, 8 * group]."""

    @abstractmethod
    def column(self, rows: Sequence[ir.Expr], flipped: bool) -> list[ir.Expr]:
        """Emit one column of a group in the layout that the instruction reads, from eight channels of each row."""

    @abstractmethod
    def weights(self, w: tirx.Buffer, at: ir.Expr) -> list[ir.Expr]:
        """Load the weights of one product."""

    @abstractmethod
    def add(
        self, total: Sequence[ir.Expr], weights: Sequence[ir.Expr], column: Sequence[ir.Expr], taps: Taps
    ) -> list[ir.Expr]:
        """Add one product to the accumulators of eight channels."""


@dataclass(frozen=True)
class Sdot(Engine):
    """SDOT, which sums the products of four rows."""

    group: int = GROUP
    registers: int = HALVES
    overwrites: bool = True

    def loading(self, flipped: bool) -> Cost:
        """Return the cost of loading four rows, and of interleaving them in `column`."""
        return scalar(GROUP) + arithmetic(GROUP + HALVES * flipped)

    def adding(self, taps: Taps) -> Cost:
        """Return the cost of `add`: one SDOT for four channels."""
        return arithmetic(HALVES)

    def pack(self, w: Array, taps: Taps) -> Array:
        """Pack the weights of one product, [block, 8 channels, kernel rows], to [block, 8 channels * 4 rows]."""
        packed = np.zeros((*w.shape[:2], GROUP), np.int8)
        for row, tap in enumerate(taps):
            if tap is not None:
                packed[:, :, row] = w[:, :, tap]
        return packed.reshape(len(w), -1)

    def column(self, rows: Sequence[ir.Expr], flipped: bool) -> list[ir.Expr]:
        """Emit four rows of one column interleaved to [channel][4 rows]: two int8x16."""
        upper, lower = (T.Bind(_zip(rows[i], rows[i + 1])) for i in (0, 2))
        return [T.Bind(flip(v, flipped)) for v in zip_halves(upper, lower, "int16x8")]

    def weights(self, w: tirx.Buffer, at: ir.Expr) -> list[ir.Expr]:
        """Load the weights of one product: two int8x16."""
        return [load(w, at + VECTOR * v, VECTOR) for v in range(HALVES)]

    def add(
        self, total: Sequence[ir.Expr], weights: Sequence[ir.Expr], column: Sequence[ir.Expr], taps: Taps
    ) -> list[ir.Expr]:
        """Emit two SDOT, which add one product to the accumulators of eight channels."""
        return [T.Bind(sdot(total[v], weights[v], column[v])) for v in range(HALVES)]


@dataclass(frozen=True)
class Mlal(Engine):
    """SMULL and SMLAL, which sum the products of one row, or of two rows in 16 bits.

    Two rows are exact unless both weights of a sum are -128.
    """

    group: int
    overwrites: bool = False

    @property
    def registers(self) -> int:  # type: ignore[override] # as many as rows
        """Number of registers that hold one column of a group: one per row."""
        return self.group

    def loading(self, flipped: bool) -> Cost:
        """Return the cost of loading the rows, and of flipping uint8 data to int8 in `column`."""
        return scalar(self.group) + arithmetic(self.group * flipped)

    def adding(self, taps: Taps) -> Cost:
        """Return the cost of `add`: one product per tap, and two widening additions."""
        return arithmetic(HALVES + sum(tap is not None for tap in taps))

    def pack(self, w: Array, taps: Taps) -> Array:
        """Pack the weights of one product, [block, 8 channels, kernel rows], to [block, rows * 8 channels]."""
        packed = np.zeros((len(w), self.group, CHANNELS), np.int8)
        for row, tap in enumerate(taps):
            if tap is not None:
                packed[:, row] = w[:, :, tap]
        if self.group == PAIR and np.any((packed == LEAST).all(1)):
            raise ValueError(
                "two weights of -128 are in one 16-bit sum, which overflows; use groups of one row"
            )
        return packed.reshape(len(w), -1)

    def column(self, rows: Sequence[ir.Expr], flipped: bool) -> list[ir.Expr]:
        """Emit the rows of one column as int8x8."""
        return [T.Bind(flip(row, flipped)) for row in rows]

    def weights(self, w: tirx.Buffer, at: ir.Expr) -> list[ir.Expr]:
        """Load the weights of one product: int8x8 for each row."""
        return [load(w, at + CHANNELS * row, CHANNELS) for row in range(self.group)]

    def add(
        self, total: Sequence[ir.Expr], weights: Sequence[ir.Expr], column: Sequence[ir.Expr], taps: Taps
    ) -> list[ir.Expr]:
        """Emit SMULL, SMLAL and SADDW, which add one product to the accumulators of eight channels."""
        products = None
        for row, tap in enumerate(taps):
            if tap is not None:
                new = smull(column[row], weights[row]) if products is None else None
                products = T.Bind(new if new is not None else smlal(products, column[row], weights[row]))
        return [T.Bind(saddw(total[0], low(products))), T.Bind(saddw(total[1], high(products)))]


ENGINES: dict[str, Engine] = {"sdot": Sdot(), "mlal1": Mlal(1), "mlal2": Mlal(PAIR)}


def _zip(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Interleave the bytes of two int8x8."""
    order = [index for lane in range(CHANNELS) for index in (lane, lane + CHANNELS)]
    return tirx.Shuffle([a, b], order)
