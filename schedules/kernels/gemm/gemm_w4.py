# SPDX-License-Identifier: Apache-2.0
"""float32 linear layers with 4-bit weights and one scale per group of k: each task converts its panel to float32.

    y[m, n] = sum over k of x[m, k] * fl(q[k, n] * scale[k // group, n]) + bias[n]

The converted panel has the layout of `gemm_f32`, so that the results equal those of `gemm_f32` bit by bit. In memory a
panel is blocks of four rows: the low four bits of a block's bytes hold its rows 0 and 1, the high bits rows 2 and 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import LANES
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.common.copies import pieces
from schedules.kernels.gemm.by_panels import BeginTask, ByPanels, Multiply
from schedules.kernels.gemm.gemm import Call
from schedules.kernels.gemm.gemm_w8 import NarrowWeights
from schedules.kernels.gemm.gemm_w8 import Params as Int8Params
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling
from schedules.kernels.gemm.product import GemmProduct
from schedules.kernels.gemm.product_float import LINEAR, bias_of, product_of
from schedules.kernels.tiles import fmla_tile
from schedules.numerics.grouped import unpacked
from schedules.tir.emit import i64, load, store

NAME = "gemm_w4"

COMPOSITE = "arm.linear_w4"

Params = Int8Params
"""Tiling parameters of the kernel."""

_BYTES = 16
"""Bytes of a register."""

INSTRUCTIONS = 35 / 32
"""Instructions per weight. 32 weights take a load, three shifts, eight each of TBL, SCVTF and FMUL, four STP, and
their share of the scales and of the loop."""


class _Int4Weights(NarrowWeights):
    name = NAME

    def full(self, workload: Workload) -> Workload:
        x, held, scales = workload.operands
        weights = Operand((x.shape[-1], scales.shape[-1]), "float32", "constant", held.index)
        return replace(workload, composite=LINEAR, operands=(x, weights))

    def products(self, workload: Workload) -> tuple[GemmProduct, ...] | Diagnostic:
        if workload.composite != COMPOSITE:
            reason = "composite is no product of weights of 4 bits"
            return declined(NAME, reason, COMPOSITE, workload.composite, unfit=True)
        product = product_of(self.full(workload), NAME)
        return product if isinstance(product, Diagnostic) else (product,)

    def describe(self, workload: Workload) -> str:
        return "float32 product of weights of 4 bits"

    def constants(
        self, workload: Workload, product: GemmProduct, params: Params
    ) -> Sequence[tuple[int, str]]:
        width = self.cut(product, params).padded_columns
        groups = workload.operands[2].shape[0]
        return (width * _blocks(product) * LANES // 2, "int8"), ((groups + 1) * width, "float32")

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: GemmProduct, params: Params
    ) -> tuple[Array, ...]:
        cut, depth = self.cut(product, params), product.rows.depth
        held, scales = (constants[operand.index] for operand in workload.operands[1:])
        rows = unpacked(held, depth)[self.order(product)]
        padded = np.pad(rows, ((0, -depth % LANES), (0, 0)))
        flat = cut.packed(padded[None])
        full = cut.full_panels * cut.width * len(padded)
        parts = [(flat[:full], cut.width), (flat[full:], cut.tail_width)]
        bytes_ = [_packed(part.reshape(-1, 2, 2 * width)) for part, width in parts if width]
        bias = bias_of(workload, constants, product.columns).astype(np.float32)
        by_column = [cut.by_column(np.ascontiguousarray(row)) for row in (*scales, bias)]
        return np.concatenate(bytes_), np.concatenate(by_column)

    def widening(self, workload: Workload, cut: PanelTiling) -> float:
        return cut.blocks * cut.padded_columns * cut.product.rows.depth * INSTRUCTIONS

    def begin(self, call: Call[Params, GemmProduct], cut: PanelTiling) -> BeginTask:
        (b, columns), product = call.packed, call.product
        groups, blocks = call.workload.operands[2].shape[0], _blocks(product)

        def begin_task(column: ir.Expr, width: int) -> Multiply:
            panel = T.alloc_buffer((blocks * LANES * width,), "float32", layout=None)
            source = T.Bind(column * (blocks * LANES // 2))

            def widened(block: ir.Expr, first: ir.Expr) -> None:
                scale = tirx.floordiv(first, int(dict(call.workload.attributes)["group"]))
                at = T.Bind(scale * cut.padded_columns + column)
                scales = [load(columns, at + place, LANES) for place in range(0, width, LANES)]
                _widen(b, T.Bind(source + block * (2 * width)), panel, block * (LANES * width), scales)

            _every_block(product, widened)

            def multiply(place: PanelTilePosition, rows: int, width: int) -> tirx.Buffer:
                bias = cut.place_of(place) + groups * cut.padded_columns
                start = [load(columns, bias + LANES * v, LANES) for v in range(width // LANES)]
                a_rows = [call.row(place.group, place.row + r) for r in range(rows)]
                return fmla_tile.multiply(call.x, a_rows, product.rows.segments, panel, i64(0), start)

            return multiply

        return begin_task


def _blocks(product: GemmProduct) -> int:
    """Return the number of blocks of four rows in a panel, the last of which may be padded."""
    return -(-product.rows.depth // LANES)


def _packed(blocks: Array) -> Array:
    """Pack 4-bit values [blocks, 2 halves, ...] into bytes: half 0 in the low four bits, half 1 in the high ones."""
    held: Array = ((blocks[:, 0] & 15) | (blocks[:, 1] << 4)).ravel()
    return held


def _every_block(product: GemmProduct, widened: Callable[[ir.Expr, ir.Expr], None]) -> None:
    """Call `widened` for each block of four rows with its index in the panel and its first k; see `fmla_tile.order`."""
    parts, trips = fmla_tile.unrolled(product.rows.depth)
    if trips:
        with T.serial(i64(0), i64(trips)) as trip:
            for part in range(parts):
                widened(T.Bind(trip * parts + part), T.Bind((trip + part * trips) * LANES))
    for block in range(parts * trips, _blocks(product)):
        widened(i64(block), i64(block * LANES))


def _widen(
    source: tirx.Buffer, start: ir.Expr, target: tirx.Buffer, to: ir.Expr, scales: Sequence[ir.Expr]
) -> None:
    """Emit the conversion of a block of four rows to float32, times the scales (one float32x4 per four columns)."""
    half = 2 * LANES * len(scales)
    for at, lanes in pieces(half, _BYTES):
        held = load(source, start + at, lanes)
        four = tirx.Broadcast(tirx.IntImm("int8", 4), lanes)
        # Cast all lanes at once: LLVM then widens each four bytes by a single TBL, and needs additional moves if fewer
        # lanes are cast.
        by = [scales[(at + lane) // LANES % len(scales)] for lane in range(0, lanes, LANES)]
        scale = tirx.Shuffle(by, list(range(lanes)))
        for rows, integers in enumerate(((held << four) >> four, held >> four)):
            value = tirx.Cast(f"float32x{lanes}", T.Bind(integers)) * scale
            store(target, value, T.Bind(to + (rows * half + at)), lanes)


_KERNEL = ByPanels(_Int4Weights())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
