# SPDX-License-Identifier: Apache-2.0
"""Rows of a table of 4-bit or 8-bit weights as floats, such as the embeddings of tokens.

The table has the packed layout of `gemm_blocks`: an embedding that is also the last linear layer is stored once.
"""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.narrow import fma
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.gemm.gemm_blocks import COLUMNS, Layer, layer_of, packed
from schedules.kernels.rowwise.row_kernel import Params as Params
from schedules.numerics.blocks import BLOCK, nearest
from schedules.tir.emit import TensorSpec, converted, i64, kernel_function, load, splat, store

NAME = "gather_blocks"

COMPOSITE = "arm.gather_blocks"

_FOUR = 4
"""Bits of a weight of 4 bits, and the number of consecutive k of a column in the packed layout."""

CYCLES = 3
"""Cycles of four elements: a load, shifts, a conversion, FMLA and a store."""


def _read(workload: Workload) -> Layer | Diagnostic:
    if workload.composite != COMPOSITE:
        reason = "composite is no gather from weights quantised in blocks"
        return declined(NAME, reason, COMPOSITE, workload.composite, unfit=True)
    layer = layer_of(NAME, workload, workload.operands[0].shape[0])
    if isinstance(layer, Layer) and layer.depth % BLOCK:
        return declined(NAME, "a row is no multiple of a block", str(BLOCK), str(layer.depth))
    return layer


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept constant tables whose rows are multiples of a block."""
    layer = _read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    if core.is_microcontroller:
        return missing_feature(NAME, "neon", core)
    return KernelMatch(
        f"{layer.rows} rows of a table of {layer.bits}-bit weights {layer.columns} x {layer.depth}"
    )


def default(workload: Workload, core: Core) -> Params:
    """Return the only parameters; many rows are parallel."""
    long = estimate(workload, Params(), core) >= threads.PARALLEL_CYCLES
    return Params(parallel=long and taken(_read(workload), workload).rows > 1)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the default: there is nothing to tune."""
    return (default(workload, core),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    layer = taken(_read(workload), workload)
    return layer.rows * layer.depth / LANES * CYCLES


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return weights, scales and perhaps offsets in the panels of `gemm_blocks`."""
    layer = taken(_read(workload), workload)
    held, *by_group = (constants[operand.index] for operand in workload.operands[1:])
    return packed(layer, held, by_group)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = taken(_read(workload), workload)
    arguments: list[TensorSpec] = [((layer.rows,), "int32")]
    arguments.append(((layer.panels * layer.blocks * layer.block_bytes,), "int8"))
    arguments += [((layer.panels * layer.groups * COLUMNS,), layer.scale)] * (1 + layer.offsets)
    arguments.append((workload.output_shape, "float32"))
    with kernel_function(f"arm_gather_blocks_w{layer.bits}", arguments) as function:
        indices, weights, *by_group, y = function.buffers

        def row(index: ir.Expr) -> None:
            column = T.Bind(nearest(load(indices, index, 1), layer.columns))
            panel, place = T.Bind(tirx.floordiv(column, COLUMNS)), T.Bind(tirx.floormod(column, COLUMNS))
            start = T.Bind(panel * (layer.blocks * layer.block_bytes) + _offset(layer, place))
            with T.serial(i64(0), i64(layer.blocks)) as block:
                group = T.Bind(panel * layer.groups + tirx.floordiv(block, layer.blocks_of_group))
                factors = [converted(load(each, group * COLUMNS + place, 1), "float32") for each in by_group]
                vectors = [T.Bind(tirx.Broadcast(each, LANES)) for each in factors]
                _block(layer, weights, T.Bind(start + block * layer.block_bytes), vectors, y, (index, block))

        threads.each(layer.rows, params.parallel, row)
    assert function.prim_func is not None
    return function.prim_func


def _offset(layer: Layer, place: ir.Expr) -> ir.Expr:
    """Return the offset of a column in a block of its panel."""
    vector = layer.block_bytes // (COLUMNS // LANES)
    return tirx.floordiv(place, LANES) * vector + tirx.floormod(place, LANES) * _FOUR


def _block(
    layer: Layer,
    weights: tirx.Buffer,
    start: ir.Expr,
    factors: Sequence[ir.Expr],
    y: tirx.Buffer,
    place: tuple[ir.Expr, ir.Expr],
) -> None:
    """Emit the conversion of a block of a column; `place` is the row of the result and the block."""
    row, block = place
    to = T.Bind(row * layer.depth + block * BLOCK)
    shift = tirx.Broadcast(tirx.IntImm("int8", _FOUR), _FOUR)
    added = factors[1] if layer.offsets else splat(0.0, "float32", LANES)
    for k in range(0, BLOCK // 2, _FOUR):
        if layer.bits == _FOUR:
            held = load(weights, start + k * _FOUR, _FOUR)
            halves = [T.Bind((held << shift) >> shift), T.Bind(held >> shift)]
        else:
            halves = [load(weights, start + (2 * k + half * _FOUR) * _FOUR, _FOUR) for half in range(2)]
        for half, integers in enumerate(halves):
            floats = T.Bind(tirx.Cast("float32x4", tirx.Cast("int32x4", integers) + _splat(layer.shift)))
            store(y, T.Bind(fma(factors[0], floats, added)), to + half * (BLOCK // 2) + k, LANES)


def _splat(value: int) -> ir.Expr:
    return tirx.Broadcast(tirx.IntImm("int32", value), LANES)
