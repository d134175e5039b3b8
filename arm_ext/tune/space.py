# SPDX-License-Identifier: Apache-2.0
"""Search space of a task: every kernel that supports it, with all valid values of its parameters.

A space is a list. Kernels offer tens of points to hundreds, all of which compute the workload, whatever its sizes, as
each kernel has code for tails; so that there is nothing to sample, and nothing that aborts. MetaSchedule's evolution
is for spaces that cannot be listed.

Whether a call is spread over threads is no part of it, as candidates are measured on one: that follows from the tile
and the workload, as `candidates` has it. Into how many blocks rows and columns are cut decides what caches hold, and so
more blocks than threads need are points, where weights take more than half of L1. Fewer are none.

Kernels that compute a workload in different ways (Winograd's transforms or the sums, SMMLA or SDOT) are points of one
space. The order of the loops over rows and columns is that of blocks: a block of one tile of rows, or of all columns,
has all columns inside, and a block of one panel, or of all rows, has all rows inside. float32 products have blocks of
k, too, where L1 does not keep a panel (see `schedules.kernels.gemm.k_blocking`); int8 ones have none, as more blocks of
columns do nearly as well: of 64 x 4096 x 384 on Neoverse N2 without SVE four take 2.37 M cycles and one 3.68, and what
still comes from L2 is 0.47 M of them. One order is none: packing the rows of an int8 product once for all blocks of
columns, instead of for each. Estimates put that at 1.4 to 5.8 % of MobileNetV2's 7 x 7 layers, and 0.45 % of the model,
for a workspace as large as the data. Loops of SDOT and FMLA are unrolled as they are: other numbers of vectors an
iteration change 14 x 14 x 96 x 576 in int8 and 24 x 1024 x 96 in float32 on Cortex-A76 by 0.1 % at most; on Cortex-A55
eight vectors of FMLA instead of four take 7 % off the latter, in another order of the sum, which is not offered.

What no kernel takes has the schedules that MetaSchedule's rules draw: dozens at most, each of which is tried once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.kernels import kernel_named
from arm_ext.tune.task import Task
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.kernels.depthwise import depthwise_s8, depthwise_s8_mlal, depthwise_s8_patch
from schedules.kernels.gemm import gemm_f32, gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot

HOPELESS = 3.0
"""Least ratio of a kernel's best estimate to the default's at which the kernel is left out: estimates are right to 1.6
or so."""

FOLLOWING = frozenset({"parallel", "column_blocks", "row_block", "block", "k_blocks", "panels"})
"""Parameters that follow from the sizes of the workload: they differ between workloads for the same tile."""

FLAGS = {
    depthwise_s8.NAME: "reload",
    depthwise_s8_mlal.NAME: "reload",
    depthwise_s8_patch.NAME: "ordered",
    gemm_s8_mlal.NAME: "reload",
    gemm_s8_mmla.NAME: "reload",
    gemm_s8_sdot.NAME: "reload",
}
"""Kernel → the parameter that keeps LLVM's scheduler from moving loads; its default depends on the kind of core."""

FINER = (2, 4, 8)
"""Multiples of the default number of blocks that are tried."""


WIDER: dict[str, Callable[[Workload, Core], tuple[Any, ...]]] = {
    gemm_f32.NAME: gemm_f32.space,
    gemm_s8_mmla.NAME: gemm_s8_mmla.space,
}
"""Kernels that have more to try than their `candidates`, among which they choose by estimate."""


def space(task: Task) -> tuple[Candidate, ...]:
    """Return the task's candidates: the default first, the others sorted by the kernels' estimates."""
    core = task.profile.core
    found: dict[Candidate, float] = {}
    for name in task.kernels:
        kernel = kernel_named(name)
        points = {
            Candidate(name, params): kernel.estimate(task.workload, params, core)
            for params in parameters(name, task.workload, core)
        }
        if min(points.values(), default=0.0) <= HOPELESS * task.estimate:
            found |= points
    found[task.default] = 0.0
    return tuple(sorted(found, key=found.__getitem__))


def parameters(kernel: str, workload: Workload, core: Core) -> Iterator[Any]:
    """Yield all parameters to try for a kernel, which must support the workload."""
    for tile in WIDER.get(kernel, kernel_named(kernel).candidates)(workload, core):
        yield from (tile, *_finer(workload, core, tile), *_flipped(kernel, tile))


def counterpart(candidate: Candidate, points: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate that is closest to one for another workload or core, with a similar number of blocks.

    Args:
        candidate: The candidate of the other workload or core.
        points: Candidates of the task.

    Returns:
        None if there is none with the same kernel and the same parameters, but for `FOLLOWING`.
    """
    wanted, blocks = (candidate.kernel, _free(candidate.params)), _blocks(candidate.params)
    alike = [point for point in points if (point.kernel, _free(point.params)) == wanted]
    return min(alike, key=lambda point: _apart(_blocks(point.params), blocks), default=None)


def _flipped(kernel: str, params: Any) -> Iterator[Any]:
    """Yield the parameters with the kernel's flag inverted, if it has one."""
    if kernel in FLAGS:
        yield replace(params, **{FLAGS[kernel]: not getattr(params, FLAGS[kernel])})


def _finer(workload: Workload, core: Core, params: Any) -> Iterator[Any]:
    """Yield the parameters with the same tile and more blocks of columns, or of rows."""
    weights = workload.operands[1:2]
    size = sum(math.prod(operand.shape) * np.dtype(operand.dtype).itemsize for operand in weights)
    if size <= core.l1d.size // 2:
        return
    for times in FINER:
        if hasattr(params, "column_blocks"):
            blocks = times * params.column_blocks
            if blocks * params.tile.columns <= workload.output_shape[-1]:
                yield replace(params, column_blocks=blocks)
        elif hasattr(params, "row_block") and getattr(params, "k_blocks", 1) == 1:
            tiles = params.row_block // params.rows // times
            if tiles:
                yield replace(params, row_block=tiles * params.rows)


def _blocks(params: Any) -> dict[str, float]:
    """Return the base-2 logarithms of the sizes or numbers of blocks, whichever the kernel has as parameters."""
    counts = {name: value for name, value in asdict(params).items() if name in FOLLOWING - {"parallel"}}
    return {name: math.log2(count) for name, count in counts.items()}


def _apart(one: dict[str, float], other: dict[str, float]) -> float:
    """Return the sum of the differences between two results of `_blocks` for the same kernel."""
    return sum(abs(one[name] - other[name]) for name in one)


def _free(params: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(params).items() if name not in FOLLOWING}
