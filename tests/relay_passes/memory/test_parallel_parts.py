# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has)

import relay_passes
from arm_ext.pipeline.codegen import allocations, build_c_function


@T.prim_func(s_tir=True)
def both(x: T.Buffer((8, 512), "float32"), y: T.Buffer((8, 512), "float32")):
    sums = T.alloc_buffer((8,), "float32")
    for i in range(8):
        sums[i] = x[i, 0]
    for i in T.parallel(8):
        row = T.alloc_buffer((512,), "float32")
        for j in range(512):
            row[j] = x[i, j] + sums[i]
        for j in range(512):
            y[i, j] = row[j]
    for i in T.parallel(4):
        y[i, 0] = sums[i]


@T.prim_func(s_tir=True)
def inner(x: T.Buffer((8, 512), "float32"), y: T.Buffer((8, 512), "float32")):
    for i in range(8):
        for j in T.parallel(512):
            y[i, j] = x[i, j]


def lowered(func: tirx.PrimFunc) -> tirx.PrimFunc:
    return allocations(tvm.IRModule({"k": func.with_attr("global_symbol", "k")}))["k"]


def test_each_parallel_loop_is_a_function() -> None:
    whole, spaces = relay_passes.hoist_all(lowered(both))
    assert [(space.bytes, space.is_local) for space in spaces] == [(32, False), (2048, True)]
    parts = relay_passes.parallel_parts(whole)
    assert parts is not None
    loops = [relay_passes.parallel_loops(part.body) for part in parts]
    assert [[int(loop.extent) for loop in found] for found in loops] == [[], [8], [4]]
    assert all(len(part.params) == 4 for part in parts)


def test_a_loop_within_another_stays() -> None:
    assert relay_passes.parallel_parts(relay_passes.hoist_all(lowered(inner))[0]) is None


def test_values_are_computed_again_for_each_loop_and_not_loaded_again() -> None:
    whole, _ = relay_passes.hoist_all(lowered(both))
    count = tirx.Var("count", "int32")
    pure = whole.with_body(tirx.SeqStmt([tirx.Bind(count, tirx.IntImm("int32", 7)), whole.body]))
    parts = relay_passes.parallel_parts(pure)
    assert parts is not None
    assert all("7" in part.script() for part in parts)
    value = tirx.Var("value", "float32")
    load = tirx.BufferLoad(whole.params[0], [tirx.IntImm("int64", 0)] * 2)
    loaded = whole.with_body(tirx.SeqStmt([tirx.Bind(value, load), whole.body]))
    assert relay_passes.parallel_parts(loaded) is None


@T.prim_func(s_tir=True)
def rows(x_handle: T.handle, y_handle: T.handle):
    n = T.int64()
    x = T.match_buffer(x_handle, (n, 512), "float32")
    y = T.match_buffer(y_handle, (n, 512), "float32")
    padded = T.alloc_buffer((n + T.int64(1),), "float32")
    for i in range(n):
        padded[i + T.int64(1)] = x[i, 0]
    for i in T.parallel(n):
        y[i, 0] = padded[i]


def test_sizes_that_are_known_at_run_time_are_those_of_arguments() -> None:
    """A workspace is as large as the greatest length asks, and a loop of as many iterations as an argument has rows."""
    whole, spaces = relay_passes.hoist_all(lowered(rows), 40)
    assert [(space.bytes, space.is_local) for space in spaces] == [(4 * 41, False)]
    parts = relay_passes.parallel_parts(whole)
    assert parts is not None
    assert [len(relay_passes.parallel_loops(part.body)) for part in parts] == [0, 1]
    count = tirx.Var("count", "int64")
    (loop,) = relay_passes.parallel_loops(whole.body)
    other = tirx.For(loop.loop_var, loop.min, count, loop.kind, loop.body)
    assert relay_passes.parallel_parts(whole.with_body(other)) is None


@T.prim_func(s_tir=True)
def with_nothing(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    rest = T.alloc_buffer((T.int64(0),))
    for i in range(0):
        rest[i] = x[i]
    for i in range(8):
        y[i] = x[i]


def test_a_buffer_without_elements_is_an_argument() -> None:
    """TVM's runtime would allocate it, and a C function cannot return that this failed."""
    whole, spaces = relay_passes.hoist_all(lowered(with_nothing))
    assert [space.bytes for space in spaces] == [0]
    build_c_function(whole, tvm.target.Target("llvm"))


@T.prim_func(s_tir=True)
def growing(x_handle: T.handle, y_handle: T.handle):
    n = T.int64()
    x = T.match_buffer(x_handle, (n, 512), "float32")
    y = T.match_buffer(y_handle, (n, 512), "float32")
    for i in range(n):
        seen = T.alloc_buffer((i + T.int64(1),), "float32")
        for j in range(i + T.int64(1)):
            seen[j] = x[j, 0]
        for j in range(i + T.int64(1)):
            y[i, j] = seen[i - j]


def test_a_workspace_of_another_size_in_each_round_is_refused() -> None:
    with pytest.raises(ValueError, match="whose size does not follow from its arguments"):
        relay_passes.hoist_all(lowered(growing), 40)
