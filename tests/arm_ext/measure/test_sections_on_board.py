# SPDX-License-Identifier: Apache-2.0
"""Kernel calls counted apart, and the cache model against cases that were counted by hand."""

import numpy as np
import pytest
import tvm
from tvm import relax, te

from arm_ext.board import open_board
from arm_ext.common.trace import Trace, TraceSection
from arm_ext.measure.call_costs import call_costs
from arm_ext.measure.mca import find_mca
from arm_ext.target.toolchain import LibraryLinker
from schedules.cores import CORES

TRIPLE = "aarch64-linux-gnu"
L1, L2 = 32 << 10, 256 << 10
LINE = 64
# Floats; `large` streams through L2, so that nothing of a run before is left in either cache.
SIZES = {"small": 2 << 10, "large": 256 << 10, "middle": 16 << 10}
PASSES = 100
# Of the wrapper around a kernel: its arguments, and the stack.
SLACK_LINES, SLACK_BYTES = 24, 2048
# The sets of L1, times a line: addresses so far apart share a set, of four ways.
APART = L1 // 4


def doubled(name: str, size: int) -> tvm.tirx.PrimFunc:
    x = te.placeholder((size,), name="x")
    return named(name, [x, te.compute((size,), lambda i: x[i] * 2)])


def passes_over(name: str, size: int, passes: int) -> tvm.tirx.PrimFunc:
    """The sum of `passes` passes over an array, one after the other."""
    x = te.placeholder((size,), name="x")
    again, i = te.reduce_axis((0, passes), "again"), te.reduce_axis((0, size), "i")
    return named(name, [x, te.compute((1,), lambda _: te.sum(x[i], axis=[again, i]))])


def lines_of_one_set(name: str, lines: int) -> tvm.tirx.PrimFunc:
    """PASSES sums, each over one number of each of some lines that share a set.

    Each pass takes another number of a line, in an order that no vector loads.
    """
    x = te.placeholder((SIZES["middle"],), name="x")
    k = te.reduce_axis((0, lines), "k")
    return named(
        name, [x, te.compute((PASSES,), lambda i: te.sum(x[k * (APART // 4) + i * 5 % 16], axis=[k]))]
    )


def quotients(name: str, size: int) -> tvm.tirx.PrimFunc:
    """1 divided by each element of an array, one after the other."""
    x, k = te.placeholder((size,), name="x"), te.reduce_axis((0, size), "k")
    divided = te.comm_reducer(lambda total, value: total / value, lambda dtype: te.const(1, dtype), "divided")
    return named(name, [x, te.compute((1,), lambda _: divided(x[k], axis=[k]))])


def named(name: str, tensors: list[te.Tensor]) -> tvm.tirx.PrimFunc:
    return te.create_prim_func(tensors).with_attr("global_symbol", name)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    builder = relax.BlockBuilder()
    inputs = {name: relax.Var(name, relax.TensorType((size,), "float32")) for name, size in SIZES.items()}
    calls = [
        ("stream", doubled("stream", SIZES["large"]), "large", SIZES["large"]),
        ("twice", passes_over("twice", SIZES["middle"], 2), "middle", 1),
        ("four", lines_of_one_set("four", 4), "middle", PASSES),
        ("five", lines_of_one_set("five", 5), "middle", PASSES),
        ("first", doubled("first", SIZES["small"]), "small", SIZES["small"]),
        ("again", doubled("again", SIZES["small"]), "small", SIZES["small"]),
        ("chain", quotients("chain", SIZES["small"]), "small", 1),
    ]
    with builder.function("main", list(inputs.values())):
        results = [
            builder.emit(
                relax.call_tir(
                    builder.add_func(kernel, name), [inputs[read]], relax.TensorType((written,), "float32")
                )
            )
            for name, kernel, read, written in calls
        ]
        builder.emit_func_output(relax.Tuple(results))
    target = tvm.target.Target({"kind": "llvm", "mtriple": TRIPLE})
    executable = relax.build(builder.get(), target, exec_mode="compiled")
    so = tmp_path_factory.mktemp("board") / "model.so"
    executable.export_library(str(so), fcompile=LibraryLinker(TRIPLE))
    with open_board("virtual", counting=True, caches=(L1, L2), calls=True) as board:
        return board.load(so).count_calls([np.ones(size, "float32") for size in SIZES.values()])


@pytest.fixture(scope="module")
def calls(trace: Trace) -> dict[str, TraceSection]:
    return {section.symbol: section for section in trace.sections if section.symbol}


def lines(size: int) -> int:
    return 4 * size // LINE


def test_calls_come_in_order_and_sum_up_to_the_whole(trace: Trace, calls: dict[str, TraceSection]) -> None:
    assert list(calls) == ["stream", "twice", "four", "five", "first", "again", "chain"]
    assert sum(block.instructions for s in trace.sections for block in s.blocks) == trace.instructions
    assert trace.misses == (
        sum(s.l1_misses for s in trace.sections),
        sum(s.l2_misses for s in trace.sections),
    )


def test_what_streams_misses_each_line_once(calls: dict[str, TraceSection]) -> None:
    read_and_written = 2 * lines(SIZES["large"])
    for misses in (calls["stream"].l1_misses, calls["stream"].l2_misses):
        assert read_and_written <= misses <= read_and_written + SLACK_LINES
    moved = 2 * 4 * SIZES["large"]
    assert moved <= calls["stream"].bytes <= moved + SLACK_BYTES


def test_a_second_pass_over_what_l1_cannot_hold_comes_from_l2(calls: dict[str, TraceSection]) -> None:
    # 64 KiB of 32: the least recently used line is always the next one that is wanted.
    once = lines(SIZES["middle"])
    assert 2 * once <= calls["twice"].l1_misses <= 2 * once + SLACK_LINES
    assert once <= calls["twice"].l2_misses <= once + SLACK_LINES


def test_four_lines_fit_a_set_of_four_ways_and_five_do_not(calls: dict[str, TraceSection]) -> None:
    assert calls["four"].l1_misses <= 4 + SLACK_LINES
    assert 5 * PASSES <= calls["five"].l1_misses <= 5 * PASSES + SLACK_LINES


@pytest.mark.parametrize(("name", "bound"), [("stream", "memory"), ("chain", "latency")])
def test_a_kernel_is_bound_by_what_it_was_made_for(
    calls: dict[str, TraceSection], name: str, bound: str
) -> None:
    (cost,) = call_costs([calls[name]], CORES["neoverse-n2"], find_mca())
    assert cost.bound == bound
    assert sum(cost.parts.values()) == pytest.approx(cost.cycles)


def test_what_was_just_read_is_in_l1(calls: dict[str, TraceSection]) -> None:
    # `first` fetches its input and its output; `again` only its output, of the same input.
    assert 2 * lines(SIZES["small"]) <= calls["first"].l1_misses <= 2 * lines(SIZES["small"]) + SLACK_LINES
    assert lines(SIZES["small"]) <= calls["again"].l1_misses <= lines(SIZES["small"]) + SLACK_LINES
