# SPDX-License-Identifier: Apache-2.0
"""The common part of int8 GEMM units: weight panels with headers, and requantisation of the sums in registers.

Weights are packed at compile time. Integer addition is associative: the result depends neither on tiles nor on
threads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import OperandPadding, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sve
from schedules.intrinsics.opaque import opaques
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.kernels.common import copies, tiling
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.epilogues import row_scales
from schedules.kernels.epilogues.requantize import Form, requantize16
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.by_rows import (
    ROW_OVERHEAD,
    TILE_OVERHEAD,
    EmitTile,
    Ready,
    RowTilePosition,
    RowUnit,
    TileSize,
)
from schedules.kernels.gemm.gemm import Call
from schedules.kernels.gemm.k_chunks_s8 import Reading
from schedules.kernels.gemm.packed_columns_s8 import HEADER, Addends, Header, Panels, Starts, Zeros
from schedules.kernels.gemm.product import reordered, weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.kernels.tiles.tile_stores import Accumulator, Put, Requantize, load_part, pieces
from schedules.tir.emit import i64, load

TILES_TIE = 0.05
"""Relative difference of two tiles' estimates below which the tile with fewer instructions is taken: it is within the
model's error. Tiles of two rows are estimated 3 to 4 % faster, with 17 % more instructions."""


JOINED = 3
"""Instructions that join the sums of two planes: SHL, and two additions."""


def in_planes(tiles: Sequence[tuple[int, int]], planes: int) -> list[tuple[int, int]]:
    """Return (rows, columns) of the tiles for data in several planes; a row takes registers for each of its planes."""
    return [(rows // planes, columns) for rows, columns in tiles if rows % planes == 0]


@dataclass(frozen=True, kw_only=True)
class TilingParams(ABC):
    """Base class of the tiling parameters of int8 GEMM kernels.

    Attributes:
        column_blocks: How many tasks share the columns of one tile of rows.
        parallel: Whether tasks are spread over the runtime's threads.
        sve: Whether a tail of columns, shorter than a vector, is stored by SVE.
        reload: Whether the initial accumulators are loaded for each row instead of copied from registers: fewer
            instructions, but LLVM's scheduler moves no load across these loads, and in-order cores need such moves.
    """

    column_blocks: int = 1
    parallel: bool = False
    sve: bool = False
    reload: bool = True

    @property
    @abstractmethod
    def tile(self) -> TileSize:
        """Size of the register tile."""


C = TypeVar("C", bound=TilingParams)

OfRow = Callable[[int], ir.Expr]
"""Function from the index of a vector of columns to a row's four values, int32x4."""

Finish = Callable[[Accumulator, int, int, Requantize, Put], None]
"""Requantises and stores a tile; one of the functions in `tile_stores`."""


class IntegerUnit(RowUnit[C, IntegerProduct]):
    """The instruction-specific part of an int8 GEMM kernel.

    Attributes:
        suffix: Suffix of the function's symbol.
        finish: Requantises and stores the accumulators of a tile.
        lines: Rows per accumulator.
        by_quads: Whether headers are loaded four vectors at a time, within the context manager `quads`.
    """

    suffix: str
    finish: Finish
    lines: int = 1
    by_quads: bool = False
    tie = TILES_TIE

    @abstractmethod
    def register_tiles(self, workload: Workload, planes: int) -> Sequence[C]:
        """Return parameters for each register tile worth considering; a tile's row has accumulators for all planes."""

    @abstractmethod
    def order(self, product: IntegerProduct) -> Array:
        """Return the k index of each byte of a packed row, `NOTHING` for padding; see `k_chunks_s8`."""

    @abstractmethod
    def pack_columns(self, columns: Array, product: IntegerProduct, params: C, vectors: int) -> Array:
        """Pack int8 weights [columns, packed depth], whole tiles of columns, into panels of `vectors` vectors."""

    @abstractmethod
    def loop_cost(self, product: IntegerProduct, params: C, rows: int, core: Core) -> Cost:
        """Return the cost of one tile's sum over k, requantisation and stores."""

    @abstractmethod
    def multiply(
        self,
        product: IntegerProduct,
        params: C,
        a: Ready,
        b: tuple[tirx.Buffer, ir.Expr],
        header: Starts,
        vectors: int,
    ) -> Accumulator:
        """Emit one tile's sum over k: the rows `a` by the panel at `b` (buffer, offset), `vectors` vectors per row."""

    @abstractmethod
    def rows_cost(self, product: IntegerProduct, rows: int) -> Cost:
        """Return the cost of packing or staging the rows of a tile."""

    @abstractmethod
    def rows(self, call: Call[C, IntegerProduct], starts: Sequence[ir.Expr]) -> Ready:
        """Emit the packing or staging of the rows at the offsets `starts`; their number is a multiple of `lines`."""

    def ready_cost(self, product: IntegerProduct, rows: int) -> Cost:
        """Return the cost of `ready`."""
        sums = rows * len(self.order(product)) / LANES / self.lines if product.shifted else 0
        return self.rows_cost(product, rows) * product.planes + arithmetic(sums)

    def ready(self, call: Call[C, IntegerProduct], starts: Sequence[ir.Expr], count: int) -> Ready:
        """Emit the packing or staging of rows and, for nine-bit weights, the sum of each row (its product by ones).

        The rows of a second plane follow those of the first.
        """
        own = starts[: -(-count // self.lines) * self.lines]
        planes = range(call.product.planes)
        a = self.rows(call, [start + plane * call.product.plane for plane in planes for start in own])
        if not call.product.shifted:
            return a
        ones = (call.packed[2], i64(call.before[2]))
        acc = self.multiply(call.product, call.params, a, ones, Zeros(1), 1)
        return a._replace(sums=[T.Bind(acc(row, 0)) for row in range(len(a.starts) // self.lines)])

    def in_lanes(self, values: Array) -> Array:
        """Reorder one value per column into the order of the accumulators' lanes."""
        return values

    def registers(self) -> AbstractContextManager[None]:
        """Return the context in which intrinsics that constrain LLVM's instruction order and registers can be used."""
        return nullcontext()

    def products(self, workload: Workload) -> tuple[IntegerProduct, ...] | Diagnostic:
        """Return the integer products of a convolution or linear layer, or a rejection."""
        return product_s8.products_of(workload, self.name)

    def describe(self, workload: Workload) -> str:
        """Return "int8 product", or "int16 by int8 product" for int16 data."""
        wide = workload.operands[0].dtype == product_s8.WIDE
        return "int16 by int8 product" if wide else "int8 product"

    def symbol(self, workload: Workload) -> str:
        """Return the name of the PrimFunc."""
        return f"{workload.composite.replace('.', '_')}_{self.suffix}"

    def tiles(self, workload: Workload, core: Core) -> Sequence[C]:
        """Return parameters for the register tiles; SVE stores tails of columns for which NEON needs several stores."""
        products = self.products(workload)
        assert not isinstance(products, Diagnostic)
        product = max(products, key=lambda product: product.macs)

        def stores(params: C) -> int:
            return len(copies.pieces(product.columns % params.tile.columns, VECTOR))

        by_sve = sve.pays(core) and product.to.dtype != product_s8.WIDE
        return [
            replace(params, sve=by_sve and stores(params) > 1, reload=not core.in_order)
            for params in self.register_tiles(workload, product.planes)
        ]

    def panels(self, product: IntegerProduct, params: C) -> Panels:
        """Return the layout of the weight panels of a product (columns per panel, headers, sizes)."""
        columns, vectors = params.tile.columns, params.tile.vectors
        headed = columns // LANES if product.dynamic else vectors
        return Panels(product, columns, headed, len(self.order(product)))

    def constants(self, workload: Workload, product: IntegerProduct, params: C) -> Sequence[tuple[int, str]]:
        """Return (size, "int8") of weight panels, headers and, for nine-bit weights, the column of ones."""
        ones = (self.one_vector * len(self.order(product)),) * product.shifted
        return [(size, "int8") for size in (*self.panels(product, params).sizes, *ones)]

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: IntegerProduct, params: C
    ) -> tuple[Array, ...]:
        """Pack the weight panels, their headers and, for nine-bit weights, the column of ones."""
        weights, order = weights_by_column(workload, constants, product), self.order(product)
        if product.shifted:
            weights = (weights - product_s8.shifts_of(weights)[..., None]).astype(np.int8)
        panels = self.panels(product, params).pack(
            workload,
            constants,
            reordered(weights, order),
            lambda columns: self.pack_columns(columns, product, params, params.tile.vectors),
            np.asarray if product.dynamic else self.in_lanes,
        )
        if not product.shifted:
            return panels
        ones = reordered(np.ones((self.one_vector, product.rows.depth), np.int8), order)
        return (*panels, self.pack_columns(ones, product, params, 1).ravel())

    @property
    def one_vector(self) -> int:
        """Number of columns per vector of accumulators."""
        return LANES // self.lines

    def more_constants(self, product: IntegerProduct) -> tuple[Array, ...]:
        """Return the constants of the residual addition, if there is one."""
        return product.residual.constants() if product.residual else ()

    @contextmanager
    def scope(self, params: C) -> Iterator[None]:
        """Open the contexts in which the intrinsics of the instruction, and SVE's if `params.sve`, can be used."""
        with opaques(), self.registers(), sve.functions(params.sve):
            yield

    def planes(self, product: IntegerProduct) -> Sequence[copies.Plane]:
        """Return the functions that split int16 data into two int8 planes; 8-bit data is one plane."""
        return product_s8.PLANES if product.planes > 1 else copies.WHOLE

    def border(
        self, workload: Workload, pad: OperandPadding, inputs: Sequence[tirx.Buffer]
    ) -> float | ir.Expr:
        """Return the value of the border: the zero point if it is computed at run time, else `pad.value`."""
        zero = workload.operands[1]
        if workload.composite not in row_scales.CONVOLUTION or zero.kind == "constant":
            return pad.value
        return T.Bind(tirx.Cast(workload.operands[0].dtype, load(inputs[zero.index], i64(0), 1)))

    def padding_cost(self, product: IntegerProduct) -> Cost:
        """Return the cost of the padded copy of the data: a load and a store per vector."""
        return product_s8.padding_cost(product)

    def fetching(self, product: IntegerProduct, params: C, core: Core) -> float:
        """Return the cycles of waiting for L2: weights are read again for each row tile, data for each column block."""
        panels = self.panels(product, params)
        weights = panels.tiles * panels.weight_bytes
        cut = params.tile.rows, params.column_blocks
        return tiling.fetching(product, *cut, weights, panels.depth, core)

    def tile_cost(
        self, workload: Workload, product: IntegerProduct, params: C, rows: int, core: Core
    ) -> Cost:
        """Return the cost of one tile: loop over k, header loads, and residual addition or dequantisation."""
        cost = self.loop_cost(product, params, rows, core)
        cost += scalar(HEADER * params.tile.vectors / 2 + TILE_OVERHEAD)
        if product.planes > 1:
            cost += arithmetic(JOINED * rows * params.tile.columns / LANES)
        if product.dynamic:
            cost += product.dynamic.cost(rows, params.tile.columns)
        if product.residual:
            lanes = VECTOR if params.tile.columns % VECTOR == 0 else VECTOR // 2
            cost += product.residual.cost(rows * params.tile.columns, lanes, core)
        return cost

    def begin(self, call: Call[C, IntegerProduct]) -> EmitTile:
        """Return the function that emits a tile; no code precedes the loop over tasks."""
        product, params, panels = call.product, call.params, self.panels(call.product, call.params)
        b, headers, *_ = call.packed

        def tile(a: Ready, index: ir.Expr, place: RowTilePosition) -> None:
            header = Header(panels.headers, headers, index, call.before[1], params.reload, self.by_quads)
            panel = index * panels.weight_bytes + call.before[0]
            joined = product.planes > 1
            start: Starts = Zeros(params.tile.vectors) if product.dynamic or joined else header
            acc = self.multiply(product, params, a, (b, panel), start, params.tile.vectors)
            lines = len(a.starts) // self.lines // product.planes
            if joined:
                acc = _joined(acc, lines, header.offsets())
            if product.dynamic:
                rows = row_scales.in_rows(acc, place.rows, self.lines)
                if product.shifted:
                    sums = row_scales.in_rows(lambda row, _: a.sums[row], place.rows, self.lines)
                    rows = [_shifted(*pair, header.shifts()) for pair in zip(rows, sums, strict=True)]
                row_scales.Finish(product.dynamic, call.inputs, call.output).tile(
                    rows,
                    [place.row + row for row in range(place.rows)],
                    header.of_columns,
                    lambda row: call.target(place.row + row, place.column),
                    place.columns,
                )
                return
            if product.shifted:
                acc = _in_tile(acc, a.sums, header.shifts())
            put = _put(call, place)

            def finish(form: Form, m: Sequence[ir.Expr], addends: Addends | None) -> None:
                def requantize(block: Sequence[ir.Expr], own: Sequence[int]) -> ir.Expr:
                    added = addends(own) if addends else []
                    return requantize16(form, block, [m[v] for v in own], product.to, added)

                self.finish(acc, lines, params.tile.vectors, requantize, put)

            header.requantized(finish)

        return tile


def _shifted(row: OfRow, sums: OfRow, shifts: Sequence[ir.Expr]) -> OfRow:
    """Return a row's accumulators plus row sum * shift, the second term of nine-bit weights; see `product_s8`."""
    return lambda v: row(v) + sums(v) * shifts[v]


def _in_tile(acc: Accumulator, sums: Sequence[ir.Expr], shifts: Sequence[ir.Expr]) -> Accumulator:
    """Return a tile's accumulators plus row sum * shift, the second term of nine-bit weights; see `product_s8`."""
    return lambda row, v: acc(row, v) + sums[row] * shifts[v]


def _joined(acc: Accumulator, lines: int, offsets: Sequence[ir.Expr]) -> Accumulator:
    """Return a tile's sums of int16 data: low + 256 * high; the high plane's accumulators start at row `lines`."""
    return lambda row, v: T.Bind(product_s8.joined(acc(row, v), acc(row + lines, v), offsets[v]))


def _put(call: Call[C, IntegerProduct], place: RowTilePosition) -> Put:
    """Return a function that stores requantised rows of a tile after the residual addition."""
    residual, constants = call.product.residual, call.packed[2 + call.product.shifted :]

    def put(values: ir.Expr, at: int, lanes: int, rows: Sequence[int]) -> None:
        own = [call.target(place.row + row, place.column + at) for row in rows if row < place.rows]
        real = min(lanes, place.columns - at)
        if not own or real <= 0:
            return
        if residual:
            other = call.inputs[residual.index]
            others = [load_part(other, to, real, lanes) for to in own]
            others += others[:1] * (VECTOR // lanes - len(own))
            values = T.Bind(residual.add(values, others, constants))
        for to, part in zip(own, pieces(values, lanes), strict=False):
            tiling.store_part(call.output, part, to, real, by_sve=call.params.sve)

    return put


class InPlace(IntegerUnit[C]):
    """Base class of int8 units that read rows unpacked; short segments of a row are staged side by side first.

    Attributes:
        step: Bytes of k that the instruction sums per lane.
        gathers: Whether short segments may be gathered in registers instead of staged in memory.
    """

    step: int
    gathers: bool = False

    def reading(self, product: IntegerProduct) -> Reading:
        """Return the plan by which rows are loaded."""
        # Gathering may load past the end of the data; only a padded copy has a spare vector there.
        may_gather = self.gathers and product.pad is not None
        return Reading.in_vectors(product.rows, self.step, may_gather=may_gather)

    def order(self, product: IntegerProduct) -> Array:
        """Return the k index of each byte of a row in the order of its loads, `NOTHING` for padding."""
        return self.reading(product).order()

    def rows_cost(self, product: IntegerProduct, rows: int) -> Cost:
        """Return the cost of staging rows and of computing their offsets."""
        staging, (loads, insertions) = self.reading(product).staging(), self.reading(product).gathering()
        return (arithmetic(staging + insertions) + scalar(staging + loads + ROW_OVERHEAD)) * rows

    def rows(self, call: Call[C, IntegerProduct], starts: Sequence[ir.Expr]) -> Ready:
        """Emit the staging or gathering of rows with short segments; other rows are read from the data."""
        reading = self.reading(call.product)
        if reading.is_gathered:
            return Ready(*reading.gathered(call.x, starts), held=True)
        return Ready(*reading.source(call.x, starts))
