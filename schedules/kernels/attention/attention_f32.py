# SPDX-License-Identifier: Apache-2.0
"""Attention in binary32 without a score matrix in memory: one tile of queries at a time, from scores to result.

    y = softmax(q · k * scale + mask) · v

Keys and values of a head are packed once. Then for each tile of rows: its scores, by FMLA, into a buffer of those rows;
of each row the greatest score, the powers of the distances from it, and their sum; their product with the values, by
FMLA, times one over the sum. The buffer of scores is the tile's rows by the keys: L1 or L2 holds it, however long the
sequence. Nothing is computed twice, and no order depends on tiles or threads. Data of float16 are widened where it is
packed, and a float16 result is rounded once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import exp_f32, sve
from schedules.intrinsics.exp_f32 import LOG2_E
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.kernels.attention import heads_f32
from schedules.kernels.attention.attention_tile import Emitter
from schedules.kernels.attention.heads_f32 import Heads
from schedules.kernels.common import float_data, threads
from schedules.kernels.common.contract import Array, Match, taken
from schedules.kernels.common.cost_model import scalar
from schedules.kernels.gemm import packed_panels_f32
from schedules.kernels.softmax import exponentials_f32
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import kernel_function

NAME = "attention_f32"

TILES = ((5, 4), (4, 4), (3, 4), (7, 3), (6, 3), (9, 2), (8, 2), (2, 8), (1, 8))
"""(rows, vectors) of the register tiles worth considering."""


@dataclass(frozen=True)
class Params(fmla_tile.Params):
    """Tiling parameters of the kernel; tasks are heads, and the tiles of their rows."""


def matches(workload: Workload, core: Core) -> Match | Diagnostic:
    """Takes float32 or float16 attention along the last axis, with any mask that broadcasts."""
    heads = heads_f32.heads_of(workload, NAME)
    if isinstance(heads, Diagnostic):
        return heads
    sizes = f"{heads.rows} x {heads.keys.columns}, depth {heads.keys.depth} and {heads.values.columns}"
    what = float_data.named("attention", workload)
    return Match(f"{what} of {math.prod(heads.lead)} heads {sizes}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return every tile size; calls that are long enough, with packing, are parallel."""
    options = [Params(*tile, sve=sve.pays(core)) for tile in TILES]
    least = 2 * threads.PARALLEL_CYCLES
    return tuple(replace(each, parallel=estimate(workload, each, core) >= least) for each in options)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    heads = _heads(workload)
    vectors = -(-heads.keys.columns // LANES)
    total = heads.rows * vectors * sum(exponentials_f32.INSTRUCTIONS[params.sve]) / core.issue_width
    around = float_data.around(workload, copied=workload.operands[0].dtype != "float32")
    total += around.cycles(core) * heads.rows * (heads.keys.depth + heads.values.columns) / LANES / 2
    for b in (heads.keys, heads.values):
        # And a conversion of float16.
        packed = packed_panels_f32.PACKING + (workload.operands[1].dtype != "float32")
        total += packed * b.depth * b.columns / LANES / core.issue_width
        full, rest = divmod(heads.rows, params.rows)
        for rows, count in ((params.rows, full), (rest, 1)):
            for width, panels in packed_panels_f32.widths(b.columns, params.width):
                if rows and panels:
                    segments, after = ((0, b.depth),), scalar(rows * 1.5 * width / LANES)
                    total += count * panels * fmla_tile.cycles(rows, width // LANES, segments, after, core)
    return total * math.prod(heads.lead)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the scale (for powers of 2 if there is no mask) and constants, each in four lanes, and a constant mask."""
    scale, mask = workload.step("scale"), workload.step("mask")
    value = np.float32(1.0)
    if scale is not None and scale.operand is not None:
        value = constants[scale.operand.index].astype(np.float32).ravel()[0]
    if mask is None:
        value = np.float32(np.float64(value) * LOG2_E)
    values = np.array([value, *exp_f32.constants(base_e=mask is not None, table=params.sve)], np.float32)
    packed = [values.repeat(LANES)]
    if mask is not None and mask.operand is not None and mask.operand.kind == "constant":
        packed.append(constants[mask.operand.index])
    return tuple(packed)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    heads = _heads(workload)
    mask = workload.step("mask")
    constant = [mask.operand] if mask and mask.operand and mask.operand.kind == "constant" else []
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    values = 1 + len(exp_f32.constants(base_e=mask is not None, table=params.sve))
    arguments += [((values * LANES,), "float32"), *((operand.shape, operand.dtype) for operand in constant)]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_attention_f32", arguments) as function, sve.functions(params.sve), pins():
        buffers = function.buffers
        scale = buffers[len(workload.inputs)]
        tensors = [buffers[operand.index] for operand in heads_f32.operands(workload)[:3]]
        if mask is not None and mask.operand is not None:
            tensors.append(buffers[-2] if constant else buffers[mask.operand.index])
        emitter = Emitter(
            heads,
            (params.rows, params.width),
            tensors,
            scale,
            buffers[-1],
            parallel=params.parallel,
            sve=params.sve,
        )
        count = math.prod(heads.lead)
        threads.each_packed(count, emitter.parts, params.parallel, emitter.pack, emitter.work)
    return function.prim_func


def _heads(workload: Workload) -> Heads:
    return taken(heads_f32.heads_of(workload, NAME), workload)
