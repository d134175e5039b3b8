# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from functools import cache

import pytest

from arm_ext.api import digits
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.target.profiles import resolve
from arm_ext.tune.candidate import Candidate, build
from arm_ext.tune.space import FOLLOWING, HOPELESS, counterpart, space
from arm_ext.tune.task import Task, extract
from schedules.kernels.depthwise import depthwise_s8
from schedules.kernels.gemm import gemm_f32, gemm_s8_mmla
from schedules.select import kernel_named
from tests.arm_ext.tune.standins import tasks


@cache
def quantised() -> tuple[Task, ...]:
    profile = resolve("neoverse-n2", "-sve")
    return tuple(extract(import_model(digits.model_path("int8")).mod, PhaseOptions(profile)))


@pytest.mark.parametrize("task", [*tasks(), *quantised()], ids=lambda task: task.name)
def test_default_comes_first_and_each_point_once(task: Task):
    points = space(task)
    assert points[0] == task.default
    assert len(points) == len(set(points))
    estimates = [
        kernel_named(p.kernel).estimate(task.workload, p.params, task.profile.core) for p in points[1:]
    ]
    assert estimates == sorted(estimates)


def test_every_point_is_built():
    # 10 rows, 3 x 3 x 8 = 72 deep: tails of rows, of columns and of k.
    task = min(quantised(), key=lambda task: task.estimate)
    for point in space(task):
        func, packed = build(task.workload, point, task.constants, task.profile.tvm_target())
        assert len(func.params) == len(task.workload.inputs) + len(packed) + 1


def test_kernels_of_other_instructions_are_points_and_hopeless_ones_are_not():
    kernels = {point.kernel for task in quantised() for point in space(task)}
    assert {"gemm_s8_mmla", "gemm_s8_sdot"} <= kernels
    for task in quantised():
        for name in {point.kernel for point in space(task)}:
            kernel, core = kernel_named(name), task.profile.core
            estimates = [
                kernel.estimate(task.workload, p, core) for p in kernel.candidates(task.workload, core)
            ]
            assert min(estimates) <= HOPELESS * task.estimate


def test_unrollings_that_make_other_code_are_points():
    points = [(task, p.params) for task in quantised() for p in space(task) if p.kernel == gemm_s8_mmla.NAME]
    by_task = [{params.unroll for of, params in points if of == task} for task in dict(points)]
    assert max(by_task, key=len) > {0, 1, 2}
    # LLVM makes the same straight code of a few steps, however they are written.
    assert min(by_task, key=len) == {0}


def test_flags_of_scheduling_are_tried_both_ways():
    task = next(task for task in quantised() if task.default.kernel == depthwise_s8.NAME)
    flags = {point.params.reload for point in space(task) if point.kernel == depthwise_s8.NAME}
    assert flags == {False, True}


def test_more_blocks_are_tried_where_weights_are_more_than_a_cache_keeps():
    task = next(task for task in quantised() if task.workload.operands[1].shape == (64, 3, 3, 32))
    core = replace(task.profile.core, l1d=replace(task.profile.core.l1d, size=16 * 1024))
    small = replace(task, profile=replace(task.profile, core=core))

    def blocks(of: Task, pairs: int) -> set[int]:
        points = [point.params for point in space(of) if point.kernel == gemm_s8_mmla.NAME]
        return {params.column_blocks for params in points if params.column_pairs == pairs}

    assert blocks(task, 4) == blocks(task, 8) == {1}
    # 64 columns are eight tiles of eight, or four of sixteen.
    assert blocks(small, 4) == {1, 2, 4, 8}
    assert blocks(small, 8) == {1, 2, 4}


def test_counterpart_has_about_as_many_blocks():
    point = next(p for p in space(quantised()[0]) if p.kernel == gemm_s8_mmla.NAME)
    points = [Candidate(point.kernel, replace(point.params, column_blocks=blocks)) for blocks in (1, 2, 8)]
    wanted = Candidate(point.kernel, replace(point.params, column_blocks=6))
    assert counterpart(wanted, points) == points[2]


def test_counterpart_of_blocks_of_k_has_some_too():
    tile = gemm_f32.Params(6, 3, row_block=60, parallel=True)
    params = [replace(tile, row_block=60 * b, k_blocks=b, panels=b) for b in (1, 4, 16)]
    points = [Candidate(gemm_f32.NAME, each) for each in params]
    wanted = Candidate(gemm_f32.NAME, replace(params[2], row_block=60, k_blocks=20))
    assert counterpart(wanted, points) == points[2]
    assert counterpart(Candidate(gemm_f32.NAME, tile), points) == points[0]


def test_counterpart_is_alike_but_for_what_follows_from_the_workload():
    points = space(quantised()[0])
    point = next(p for p in points if p.kernel == gemm_s8_mmla.NAME)
    elsewhere = Candidate(
        point.kernel, replace(point.params, column_blocks=7, parallel=not point.params.parallel)
    )
    assert {"column_blocks", "parallel"} <= FOLLOWING
    assert counterpart(elsewhere, points) == point
    other = replace(point.params, unroll=5)
    assert counterpart(Candidate(point.kernel, other), points) is None
