# SPDX-License-Identifier: Apache-2.0
"""float32 linear layers with weights of 4 or 8 bits in groups of k; see `schedules.numerics.blocks`.

    y[m, n] = sum over k of x[m, k] * fma(scale, q[n, k] + shift, offset) + bias[n]

Each task converts its panel to float32, in the layout of `gemm_f32`, so that the results equal those of `gemm_f32` bit
by bit. In memory a panel is blocks of four rows, [row][column]; with 4 bits, the low bits of a block's bytes hold its
rows 0 and 1, the high bits rows 2 and 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import lanes_of
from schedules.intrinsics.vector_f32 import Vector
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
from schedules.numerics.blocks import unpacked
from schedules.tir.emit import converted, i64, load, splat, store

NAME = "gemm_blocks_f32"

COMPOSITE = "arm.linear_blocks_float"

Params = Int8Params
"""Tiling parameters of the kernel."""

_BYTES = 16
"""Bytes of a register."""

_FOUR = 4
"""Bits of a weight."""

INSTRUCTIONS = {4: 35 / 32, 8: 33 / 32}
"""Bits → instructions per weight. 32 weights take a load (8 bits: two), three shifts (none), eight each of TBL, SCVTF
and FMUL, four STP, and their share of the scales and of the loop."""


class _BlockWeights(NarrowWeights):
    name = NAME

    def full(self, workload: Workload) -> Workload:
        x, held, *_ = workload.operands
        weights = Operand((x.shape[-1], held.shape[0]), "float32", "constant", held.index)
        return replace(workload, composite=LINEAR, operands=(x, weights))

    def products(self, workload: Workload) -> tuple[GemmProduct, ...] | Diagnostic:
        if workload.composite != COMPOSITE:
            reason = "composite is no product of float data and weights in groups"
            return declined(NAME, reason, COMPOSITE, workload.composite, unfit=True)
        layer = _Layer.of(workload)
        if layer.groups > 1 and layer.group % LANES:
            reason = "group is no multiple of a vector's lanes"
            return declined(NAME, reason, str(LANES), str(layer.group))
        product = product_of(self.full(workload), NAME)
        return product if isinstance(product, Diagnostic) else (product,)

    def describe(self, workload: Workload) -> str:
        return f"float32 product of weights of {_Layer.of(workload).bits} bits"

    def constants(
        self, workload: Workload, product: GemmProduct, params: Params
    ) -> Sequence[tuple[int, str]]:
        width, layer = self.cut(product, params).padded_columns, _Layer.of(workload)
        held = width * _blocks(product) * LANES * layer.bits // 8, "int8"
        by_group = [(layer.groups * width, layer.scale)] * (1 + layer.offsets)
        return held, *by_group, (width, "float32")

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: GemmProduct, params: Params
    ) -> tuple[Array, ...]:
        cut, depth, layer = self.cut(product, params), product.rows.depth, _Layer.of(workload)
        held, *by_group = (constants[operand.index] for operand in workload.operands[1:])
        columns = unpacked(held, depth) if layer.bits == _FOUR else held
        rows = columns.T[self.order(product)]
        padded = np.pad(rows, ((0, -depth % LANES), (0, 0)))
        flat = cut.packed(padded[None])
        full = cut.full_panels * cut.width * len(padded)
        parts = [(flat[:full], cut.width), (flat[full:], cut.tail_width)]
        if layer.bits == _FOUR:
            parts = [(_packed(part.reshape(-1, 2, 2 * width)), width) for part, width in parts if width]
        bias = bias_of(workload, constants, product.columns).astype(np.float32)
        return (
            np.concatenate([part for part, _ in parts]),
            *(
                np.concatenate([cut.by_column(np.ascontiguousarray(row)) for row in each.T])
                for each in by_group
            ),
            cut.by_column(bias),
        )

    def widening(self, workload: Workload, cut: PanelTiling) -> float:
        return (
            cut.blocks * cut.padded_columns * cut.product.rows.depth * INSTRUCTIONS[_Layer.of(workload).bits]
        )

    def begin(self, call: Call[Params, GemmProduct], cut: PanelTiling) -> BeginTask:
        (b, *by_group, biases), product = call.packed, call.product
        blocks, layer = _blocks(product), _Layer.of(call.workload)

        def begin_task(column: ir.Expr, width: int) -> Multiply:
            panel = T.alloc_buffer((blocks * LANES * width,), "float32", layout=None)
            source = T.Bind(column * (blocks * LANES * layer.bits // 8))

            def widened(block: ir.Expr, first: ir.Expr) -> None:
                at = T.Bind(tirx.floordiv(first, layer.group) * cut.padded_columns + column)
                factors = [
                    [converted(load(each, at + place, LANES), "float32") for place in range(0, width, LANES)]
                    for each in by_group
                ]
                start = T.Bind(source + block * (width * layer.bits // 2))
                _widen(layer, b, start, panel, block * (LANES * width), factors)

            _every_block(product, widened)

            def multiply(place: PanelTilePosition, rows: int, width: int) -> tirx.Buffer:
                bias = cut.place_of(place)
                start = [load(biases, bias + LANES * v, LANES) for v in range(width // LANES)]
                a_rows = [call.row(place.group, place.row + r) for r in range(rows)]
                return fmla_tile.multiply(call.x, a_rows, product.rows.segments, panel, i64(0), start)

            return multiply

        return begin_task


class _Layer(NamedTuple):
    """What a workload's attributes say of its weights; see `schedules.numerics.blocks.BlockWeights`."""

    bits: int
    group: int
    shift: int
    groups: int
    scale: str
    offsets: bool

    @staticmethod
    def of(workload: Workload) -> "_Layer":
        _, _, scales, *offsets = workload.operands
        values = dict(workload.attributes)
        bits, group, shift = (int(values[name]) for name in ("bits", "group", "shift"))
        return _Layer(bits, group, shift, scales.shape[1], scales.dtype, bool(offsets))


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
    layer: _Layer,
    source: tirx.Buffer,
    start: ir.Expr,
    target: tirx.Buffer,
    to: ir.Expr,
    by_group: Sequence[Sequence[ir.Expr]],
) -> None:
    """Emit the conversion of a block of four rows to float32.

    Args:
        layer: The weights.
        source: Packed weights.
        start: Offset of the block in the source.
        target: Flat float32 [row][column].
        to: Offset of the block in the target.
        by_group: The scales, and the offsets if there are any: one float32x4 per four columns.
    """
    half = 2 * LANES * len(by_group[0])

    def store_rows(rows: int, at: int, integers: ir.Expr) -> None:
        lanes = lanes_of(integers)
        by = [
            tirx.Shuffle(
                [each[(at + lane) // LANES % len(each)] for lane in range(0, lanes, LANES)],
                list(range(lanes)),
            )
            for each in by_group
        ]
        value = tirx.Cast(f"float32x{lanes}", integers)
        if layer.shift:
            value = value + splat(float(layer.shift), "float32", lanes)
        value = Vector(lanes).fma(value, *by) if layer.offsets else value * by[0]
        store(target, value, T.Bind(to + (rows * half + at)), lanes)

    for at, lanes in pieces(half, _BYTES):
        if layer.bits == _FOUR:
            held = load(source, start + at, lanes)
            four = tirx.Broadcast(tirx.IntImm("int8", 4), lanes)
            # Cast all lanes at once: LLVM then widens each four bytes by a single TBL, and needs additional moves if
            # fewer lanes are cast.
            for rows, integers in enumerate(((held << four) >> four, held >> four)):
                store_rows(rows, at, T.Bind(integers))
        else:
            for rows in range(2):
                store_rows(rows, at, load(source, start + (rows * half + at), lanes))


_KERNEL = ByPanels(_BlockWeights())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
