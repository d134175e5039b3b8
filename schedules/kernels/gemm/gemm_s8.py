# SPDX-License-Identifier: Apache-2.0
"""What the int8 product kernels share: an implicit GEMM in register tiles, requantised and stored from registers.

A task is one tile of rows, made ready for the instruction, by a block of columns. Weights are packed at compile time.
Integer sums have no order: the result depends neither on tiles nor on threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics import sve
from schedules.kernels.common import copies, threads, tiling
from schedules.kernels.common.contract import Array, Match, Rejection, taken
from schedules.kernels.common.cost_model import VECTOR, Cost, cheapest, scalar
from schedules.kernels.epilogues import row_scales
from schedules.kernels.epilogues.requantize import Form, requantize16
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.gemm_s8_unit import P, Ready, Unit
from schedules.kernels.gemm.k_chunks_s8 import reordered
from schedules.kernels.gemm.packed_columns_s8 import HEADER, LANES, Header, Panels, Starts, Zeros
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.kernels.tiles.tile_stores import load_part, pieces
from schedules.tir.emit import kernel_function

TILE_OVERHEAD = 8
"""Scalar instructions of a tile: where its constants and its outputs lie, and the loop over tiles."""

TILES_TIE = 0.05
"""Estimates of tiles closer than this rank nothing, as models of one loop differ by as much: tiles of two rows gain 3
to 4 % by theirs, for 17 % more instructions."""


class Gemm(Generic[P]):
    """A kernel on a unit; its public functions are those of `schedules.kernels.common.contract.Kernel`."""

    def __init__(self, unit: Unit[P]) -> None:
        self.unit = unit

    def matches(self, workload: Workload, core: Core) -> Match | Rejection:
        """Takes integer convolutions and linear layers with constant weights, on cores with the instruction."""
        products = product_s8.products_of(workload, self.unit.name)
        if isinstance(products, Rejection):
            return products
        if not self.unit.has(core):
            return Rejection(self.unit.name, "the core lacks a feature", self.unit.feature, core.name)
        return Match(f"int8 product {', '.join(str(product) for product in products)}")

    def default(self, workload: Workload, core: Core) -> P:
        """The cheapest candidate."""
        return cheapest(
            self.candidates(workload, core),
            lambda params: self._cost_on(workload, params, core),
            core,
            TILES_TIE,
        )

    def candidates(self, workload: Workload, core: Core) -> tuple[P, ...]:
        """Every tile; calls that are worth it in tasks for the threads, and for L1."""
        product = max(self._products(workload), key=lambda product: product.macs)
        found = []
        for params in self.unit.tiles(workload):
            if sve.pays(core) and len(copies.pieces(product.columns % params.tile.columns, VECTOR)) > 1:
                params = replace(params, sve=True)
            if self.estimate(workload, params, core) >= threads.PARALLEL_CYCLES:
                blocks, parallel = tiling.shares(product, params.tile.rows, params.tile.columns)
                params = replace(params, column_blocks=blocks, parallel=parallel)
                params = tiling.for_cache(
                    params,
                    product.columns // params.tile.columns,
                    lambda option: self.estimate(workload, option, core),
                )
            found.append(params)
        return tuple(found)

    def estimate(self, workload: Workload, params: P, core: Core) -> float:
        """Cycles of one call on one core, with what it reads in L1 at first."""
        return self._cost_on(workload, params, core).cycles(core)

    def cost(self, workload: Workload, params: P) -> Cost:
        """Instructions of one call; what lies outside the tiles, a few percent of small calls, is left out."""
        products = self._products(workload)
        total = sum((self._product_cost(product, params) for product in products), Cost())
        return total + product_s8.padding_cost(products[0])

    def pack(self, workload: Workload, params: P, constants: Sequence[Array]) -> tuple[Array, ...]:
        """Panels of weights, and their headers."""

        def pack(product: IntegerProduct) -> tuple[Array, Array]:
            weights = weights_by_column(workload, constants, product)
            return self._panels(product, params).pack(
                workload,
                constants,
                reordered(weights, self.unit.order(product)),
                lambda columns: self.unit.pack_columns(columns, product, params),
                np.asarray if product.dynamic else self.unit.in_lanes,
            )

        products = self._products(workload)
        packed = zip(*(pack(product) for product in products), strict=True)
        residual = products[0].residual
        return (*map(np.concatenate, packed), *(residual.constants() if residual else ()))

    def build(self, workload: Workload, params: P) -> tirx.PrimFunc:
        """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
        products = self._products(workload)
        arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
        sizes = [self._panels(product, params).sizes for product in products]
        arguments += [((sum(each),), "int8") for each in zip(*sizes, strict=True)]
        residual = products[0].residual
        arguments += [(each.shape, "int32") for each in (residual.constants() if residual else ())]
        arguments.append((workload.output_shape, workload.output_dtype))
        name = f"{workload.composite.replace('.', '_')}_{self.unit.suffix}"
        with kernel_function(name, arguments) as function:
            inputs = function.buffers[: len(workload.inputs)]
            x, rest = inputs[workload.operands[0].index], function.buffers[len(inputs) :]
            if products[0].pad is not None or any(map(self.unit.reads_past_the_data, products)):
                x = product_s8.padded(x, workload, products[0])
            for index, product in enumerate(products):
                before = [sum(each) for each in zip((0, 0), *sizes[:index], strict=True)]
                code = _Code(
                    self.unit, product, params, self._panels(product, params), x, inputs, rest, before
                )
                with self.unit.scope(), sve.functions(params.sve):
                    tiling.tasks(
                        product, params.tile.rows, params.column_blocks, params.parallel, code.row_tile
                    )
        return function.prim_func

    def _product_cost(self, product: IntegerProduct, params: P) -> Cost:
        total, panels = Cost(), self._panels(product, params).tiles
        full, rest = divmod(product.rows.count, params.tile.rows)
        for rows, tiles in ((params.tile.rows, full), (rest, 1)):
            if rows and tiles:
                columns = self.unit.tile_cost(product, params, rows) + scalar(
                    HEADER * params.tile.vectors / 2 + TILE_OVERHEAD
                )
                if product.dynamic:
                    columns += product.dynamic.cost(rows, params.tile.columns)
                if product.residual:
                    lanes = VECTOR if params.tile.columns % VECTOR == 0 else VECTOR // 2
                    columns += product.residual.cost(rows * params.tile.columns, lanes)
                ready = self.unit.ready_cost(product, rows) * params.column_blocks
                total += (ready + columns * panels) * tiles
        return total * product.groups

    def _cost_on(self, workload: Workload, params: P, core: Core) -> Cost:
        fetching = 0.0
        for product in self._products(workload):
            panels = self._panels(product, params)
            weights = panels.tiles * panels.weight_bytes
            cut = params.tile.rows, params.column_blocks
            fetching += tiling.fetching(product, *cut, weights, panels.depth, core)
        return self.cost(workload, params) + Cost(fetching=fetching)

    def _products(self, workload: Workload) -> tuple[IntegerProduct, ...]:
        return taken(product_s8.products_of(workload, self.unit.name), workload)

    def _panels(self, product: IntegerProduct, params: P) -> Panels:
        columns, vectors = params.tile.columns, params.tile.vectors
        return Panels(
            product,
            columns,
            columns // LANES if product.dynamic else vectors,
            len(self.unit.order(product)),
        )


@dataclass(frozen=True)
class _Code(Generic[P]):
    """Emits one product, from a tile of rows inwards; `before` are bytes of panels and headers of those before it."""

    unit: Unit[P]
    product: IntegerProduct
    params: P
    panels: Panels
    x: tirx.Buffer
    inputs: Sequence[tirx.Buffer]
    rest: Sequence[tirx.Buffer]
    before: Sequence[int]

    def row_tile(self, group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
        """Multiplies `count` rows from row `first` by a block of columns."""
        product, params = self.product, self.params
        at = product.rows.offsets(first, count, params.tile.rows)
        starts = [T.Bind(start + group * product.group_step) for start in at]
        a = self.unit.ready(product, self.x, starts, count)
        tiling.column_tiles(
            product.columns,
            params.tile.columns,
            (block, params.column_blocks),
            lambda tile, columns: self.tile(a, (group, first, count), tile, columns),
        )

    def tile(self, a: Ready, where: tuple[ir.Expr, ir.Expr, int], tile: ir.Expr, columns: int) -> None:
        """One register tile, requantised and stored; `columns` of its columns are part of the result."""
        product, (group, first, count) = self.product, where
        b, headers, *constants, output = self.rest
        index = T.Bind(group * self.panels.tiles + tile)
        header = Header(self.panels, headers, index, self.before[1])
        panel = index * self.panels.weight_bytes + self.before[0]
        begin: Starts = Zeros(self.params.tile.vectors) if product.dynamic else header
        acc = self.unit.multiply(product, self.params, a, (b, panel), begin)
        left = group * product.columns + tile * self.params.tile.columns
        if product.dynamic:
            row_scales.Finish(product.dynamic, self.inputs, output).tile(
                row_scales.in_rows(acc, count, self.unit.lines),
                [first + row for row in range(count)],
                header.of_columns,
                lambda row: product.target(first + row) + left,
                columns,
            )
            return

        def put(values: ir.Expr, at: int, lanes: int, rows: Sequence[int]) -> None:
            own = [product.target(first + row) + (left + at) for row in rows if row < count]
            real = min(lanes, columns - at)
            if not own or real <= 0:
                return
            if product.residual:
                other = self.inputs[product.residual.index]
                others = [load_part(other, to, real, lanes) for to in own]
                others += others[:1] * (VECTOR // lanes - len(own))
                values = T.Bind(product.residual.add(values, others, constants))
            for to, part in zip(own, pieces(values, lanes), strict=False):
                tiling.store_part(output, part, to, real, by_sve=self.params.sve)

        def finish(form: Form, m: Sequence[ir.Expr], addend: Sequence[ir.Expr]) -> None:
            def requantize(block: Sequence[ir.Expr], own: Sequence[int]) -> ir.Expr:
                factors, addends = ([each[v] for v in own] if each else [] for each in (m, addend))
                return requantize16(form, block, factors, product.to, addends)

            lines = len(a[1]) // self.unit.lines
            self.unit.finish(acc, lines, self.params.tile.vectors, requantize, put)

        header.requantized(finish)
