# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.ethosu.partition.cpu_cost import UNSCHEDULED_CYCLES, cpu_cycles
from tests.arm_ext.ethosu.partition.divided import named, prepared
from tests.arm_ext.npu_models import SIDE, WIDE


def test_an_operator_takes_what_the_kernel_that_computes_it_is_estimated_at():
    model = prepared("mixed")
    cycles = cpu_cycles(model.lowered.mod, model.lowered.kernels, model.graph.operators)
    estimates = {
        source: kernel.selection_cost for kernel in model.lowered.kernels for source in kernel.sources
    }
    for node in ("conv", "query", "mixture"):
        assert cycles[named(model.graph, node)] == estimates[node] > 0


def test_operators_of_one_kernel_share_what_it_takes():
    model = prepared("mixed")
    (kernel,) = [k for k in model.lowered.kernels if "scores" in k.sources]
    cycles = cpu_cycles(model.lowered.mod, model.lowered.kernels, model.graph.operators)
    shares = [cycles[named(model.graph, node)] for node in ("turned", "scores")]
    assert sum(shares) == pytest.approx(kernel.selection_cost)
    assert 0 < shares[0] < shares[1]


def test_a_kernel_that_is_called_twice_counts_for_each_call():
    model = prepared("mixed")
    (kernel,) = [k for k in model.lowered.kernels if {"query", "key"} <= set(k.sources)]
    cycles = cpu_cycles(model.lowered.mod, model.lowered.kernels, model.graph.operators)
    assert [cycles[named(model.graph, node)] for node in ("query", "key")] == [kernel.selection_cost] * 2


def test_loops_that_nobody_scheduled_take_a_cycle_for_each_piece_of_work():
    model = prepared("mixed")
    kernels = [
        k.model_copy(update={"selection_cost": None}) if "conv" in k.sources else k
        for k in model.lowered.kernels
    ]
    cycles = cpu_cycles(model.lowered.mod, kernels, model.graph.operators)
    outputs = WIDE * SIDE * SIDE
    assert cycles[named(model.graph, "conv")] == pytest.approx(UNSCHEDULED_CYCLES * outputs * (27 + 1))


def test_a_view_takes_nothing():
    model = prepared("mixed")
    cycles = cpu_cycles(model.lowered.mod, model.lowered.kernels, model.graph.operators)
    assert cycles[named(model.graph, "flatten")] == 0
