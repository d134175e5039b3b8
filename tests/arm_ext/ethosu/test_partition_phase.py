# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from tvm import relax

from arm_ext import NpuOptions
from arm_ext.ethosu.divider import Divider
from arm_ext.ethosu.options import OnNpuError
from arm_ext.ethosu.partition_phase import RUN, Partitioner
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.phases import Context, run_phases
from relay_passes.ir.sources import bindings_of, unnamed_calls
from schedules.numerics import tosa
from tests.arm_ext.ethosu.divided import Prepared, prepared

WISHES = ("conv2d", "linear", "softmax")


def partitioned(model: Prepared, options: NpuOptions) -> tuple[Partitioner, Context, relax.Function]:
    partitioner = Partitioner(Divider(options), model.model, model.macs)
    context = replace(model.context, kernels=[], offers={})
    mod = partitioner(model.integer, context)
    return partitioner, context, mod["main"]


@pytest.mark.parametrize(("on_error", "number"), [("fallback", 0), ("fail", 1)])
def test_each_region_is_a_function_and_its_payload_is_offered_it(on_error: OnNpuError, number: int):
    options = NpuOptions("ethos-u65-256", npu_ops=WISHES, on_npu_error=on_error)
    partitioner, context, main = partitioned(prepared("mixed"), options)
    (divided,) = partitioner.divided
    regions = divided.offload.regions
    assert len(regions) > 1
    assert list(context.offers) == [f"fallback_{i}" for i in range(len(regions))]
    for index, (offer, region) in enumerate(zip(context.offers.values(), regions, strict=True)):
        assert offer.symbol == RUN
        place, fails, payload = offer.arguments
        assert (int(place.value), int(fails.value)) == (index, number)
        assert payload.value.numpy().tobytes() == region.compiled.payload.to_bytes()
    called = [getattr(getattr(b.value, "op", None), "name_hint", "") for b in bindings_of(main)]
    assert [name for name in called if name in context.offers] == list(context.offers)


def test_no_call_without_a_source_in_any_phase_and_memory_is_that_of_the_cpu_alone():
    model = prepared("mixed")
    divide = Partitioner(Divider(NpuOptions("ethos-u65-256", npu_ops=WISHES)), model.model, model.macs)
    peaks = []
    for context in (
        Context(model.context.profile, numerics=tosa.NUMERICS, divide=divide),
        Context(model.context.profile, numerics=tosa.NUMERICS),
    ):
        modules = dict(run_phases(model.model.mod, context))
        assert {name: unnamed_calls(mod) for name, mod in modules.items()} == {name: [] for name in modules}
        assert {node for kernel in context.kernels for node in kernel.sources} <= set(model.model.nodes)
        memory = memory_of(modules["lower"], modules["plan"])
        peaks.append((memory.peak_activation_bytes, memory.widest[0].live_bytes))
    # Where regions begin and end nothing is fused.
    assert peaks[0][1] == peaks[1][1]
    assert peaks[0][0] <= 1.1 * peaks[1][0]


def test_estimates_are_of_the_graph_before_it_is_divided_and_not_in_the_report():
    partitioner, context, _ = partitioned(prepared("whole"), NpuOptions("ethos-u65-256"))
    assert context.kernels == []
    (divided,) = partitioner.divided
    # It is so small that it stays.
    assert (divided.offload.regions, context.offers) == ((), {})
