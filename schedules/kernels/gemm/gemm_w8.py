# SPDX-License-Identifier: Apache-2.0
"""float32 linear layers with int8 weights: weights stay int8 in memory, and each task widens the panel that it reads.

    y[m, n] = scale[n] * (sum over k of x[m, k] * w[k, n]) + bias[n]

The integers are exact in binary32, and the scale meets the sum once: the error is that of `gemm_f32`, less the rounding
of weights * scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics.fmla import LANES
from schedules.intrinsics.narrow import fma
from schedules.kernels.common.contract import Array, Match, Rejection, taken
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm import gemm_f32, panel_selection, product_float, widen_s8
from schedules.kernels.gemm.panel_tiling import Cut, Place, Tile
from schedules.kernels.gemm.product import Product
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import i64, kernel_function, load, splat, store

NAME = "gemm_w8"


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        tile: As that of the float32 product.
    """

    tile: gemm_f32.Params


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes `arm.linear_w8` of float32 data."""
    product = product_float.weight_only_product_of(workload, NAME, "float32")
    return product if isinstance(product, Rejection) else Match(f"float32 product of int8 weights {product}")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the fewest instructions among those whose estimate is next to the lowest."""
    return panel_selection.best(workload, core, candidates, estimate, instructions)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """The tiles of the float32 product."""

    def cycles(tile: gemm_f32.Params) -> float:
        return estimate(workload, Params(tile), core)

    return tuple(
        Params(tile) for tile in gemm_f32.candidates_by(product_float.in_full(workload), core, cycles)
    )


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles on one core: those of the float32 product, and of widening each task's panel."""
    product = _product(workload)
    cut = _cut(product, params)
    widened = cut.blocks * cut.padded_columns * product.rows.depth * widen_s8.INSTRUCTIONS["float32"]
    return gemm_f32.estimate(product_float.in_full(workload), params.tile, core) + widened / core.issue_width


def instructions(workload: Workload, params: Params) -> float:
    """Those of the float32 product; widening takes as many with every tile of a width."""
    return gemm_f32.instructions(product_float.in_full(workload), params.tile)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """B in panels of int8; scale and bias by column."""
    product = _product(workload)
    cut, full = _cut(product, params), product_float.in_full(workload)
    weights = product_float.weights_by_group(full, constants, product)
    bias = product_float.bias_of(full, constants, product.columns).astype(np.float32)
    columns = [
        cut.by_column(product_float.scales_of(workload, constants, product.columns)),
        cut.by_column(bias),
    ]
    return cut.packed(weights[:, fmla_tile.order(product.rows.segments)]), np.concatenate(columns)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    cut = _cut(product, params)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [
        ((cut.padded_columns * product.rows.depth,), "int8"),
        ((2 * cut.padded_columns,), "float32"),
    ]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join((workload.composite.replace(".", "_"), *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function:
        emitter = _Emitter(workload, cut, function.buffers)
        cut.tasks(parallel=params.tile.parallel, begin=emitter.begin)
    return function.prim_func


class _Emitter:
    """Emits the register tiles of one kernel."""

    def __init__(self, workload: Workload, cut: Cut, buffers: Sequence[tirx.Buffer]) -> None:
        residual = workload.step("residual")
        self.cut, self.steps = cut, product_float.in_full(workload).epilogue
        self.a = buffers[workload.operands[0].index]
        self.b, self.columns, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def begin(self, column: ir.Expr, width: int) -> Tile:
        """Widens the panel of a task."""
        depth = self.cut.product.rows.depth
        panel = T.alloc_buffer((depth * width,), "float32", layout=None)
        widen_s8.widen(self.b, T.Bind(column * depth), panel, depth * width)
        return lambda place, rows, width, columns: self.tile(panel, place, rows, width, columns)

    def tile(self, panel: tirx.Buffer, place: Place, rows: int, width: int, columns: int) -> None:
        """One register tile and its epilogue."""
        product = self.cut.product
        start = [splat(0.0, "float32", LANES)] * (width // LANES)
        a_rows = [product.rows.offset(place.row + r) for r in range(rows)]
        sums = fmla_tile.multiply(self.a, a_rows, product.rows.segments, panel, i64(0), start)
        acc = T.alloc_buffer((rows * width,), "float32", layout=None)
        for at in range(0, width, LANES):
            scale, bias = (
                load(self.columns, place.column + (part * self.cut.padded_columns + at), LANES)
                for part in range(2)
            )
            for r in range(rows):
                total = sums.vload([i64(r * width + at)], "float32x4")
                store(acc, fma(total, scale, bias), i64(r * width + at), LANES)
        for r in range(rows):
            offset = product.target(place.row + r) + place.column
            epilogue_f32.finish(self.steps, acc, r * width, columns, self.output, offset, self.residual)


def _cut(product: Product, params: Params) -> Cut:
    return Cut(product, params.tile.rows, params.tile.vectors * LANES, params.tile.row_block, LANES)


def _product(workload: Workload) -> Product:
    return taken(product_float.weight_only_product_of(workload, NAME, "float32"), workload)
