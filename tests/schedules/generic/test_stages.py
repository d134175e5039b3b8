# SPDX-License-Identifier: Apache-2.0
"""The steps between a PrimFunc and its code: parse, fuse, share_rows, parts, nests."""

import math

from tvm import tirx

from schedules.generic.fusion import fuse
from schedules.generic.nest import nests
from schedules.generic.parse import parse
from schedules.generic.rows import share_rows
from schedules.generic.split_at_conditions import parts
from schedules.generic.stages import shape_of, without_units
from tests.schedules.generic.operators import CASES, lowered


def _program(name):
    function, inputs = CASES[name]
    return parse(lowered(function, *inputs))


def _axes(name):
    """The extents of each nest's axes."""
    program = fuse(_program(name))
    flat = {
        tensor: tirx.decl_buffer((math.prod(shape_of(tensor)),), str(tensor.ty.dtype))
        for tensor in (*program.params, *program.temporaries)
    }
    return [[axis.extent for axis in nest.axes] for s in program.stages for nest in nests(s, flat)]


def test_elementwise_stages_become_one():
    assert len(_program("gelu").stages) > 1
    assert len(fuse(_program("gelu")).stages) == 1


def test_what_follows_a_sum_joins_it():
    (stage,) = fuse(_program("mean of channels")).stages
    assert stage.reduction is not None
    assert not stage.value.same_as(stage.reduction.result)


def test_an_expensive_stage_with_two_readers_is_stored():
    names = [stage.target.name for stage in fuse(_program("softmax")).stages]
    assert "T_softmax_exp" in names


def test_a_border_is_not_computed_anew_for_each_window():
    assert len(fuse(_program("wide max pool")).stages) == 2


def test_argmax_becomes_two_reductions():
    assert [s.reduction.kind for s in fuse(_program("argmax")).stages] == ["max", "min"]


def test_rows_are_shared_by_all_stages_or_by_none():
    assert [axis.extent for axis in share_rows(fuse(_program("softmax"))).axes] == [2, 3]
    assert not share_rows(fuse(_program("wide max pool"))).axes
    # The columns are what is summed over: only the batch is common.
    assert [axis.extent for axis in share_rows(fuse(_program("softmax of columns"))).axes] == [2]
    # Both its stages have columns, along which it has vectors.
    assert [axis.extent for axis in share_rows(fuse(_program("argmax of columns"))).axes] == [2, 3]


def test_a_stage_is_cut_where_its_condition_changes():
    (stage,) = fuse(_program("concat rows")).stages
    # 3 rows of the first, 1 of the second (an axis of extent 1 is none) and 4 of the third.
    assert [[axis.extent for axis in p.axes] for p in parts(without_units(stage))] == [
        [2, 3, 18],
        [2, 18],
        [2, 4, 18],
    ]


def test_adjacent_axes_become_one():
    assert _axes("add of bytes") == [[99]]
    assert _axes("bias") == [[35, 19]]


def test_an_axis_that_is_divided_becomes_two():
    assert _axes("merge heads") == [[9, 2, 20]]
