# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from arm_ext import NpuOptions
from arm_ext.ethosu.options import OnNpuError
from arm_ext.ethosu.partition.divider import Divider, Offloaded
from arm_ext.ethosu.partition.phase import Partitioner
from arm_ext.native.build import NPU_RUN
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.phases import PhaseResult, run_phases
from relay_passes.ir.sources import bindings_of, unnamed_calls
from tests.arm_ext.ethosu.partition.divided import Prepared, prepared

WISHES = ("conv2d", "linear", "softmax")


def partitioned(model: Prepared, options: NpuOptions) -> tuple[Offloaded, PhaseResult]:
    partitioner = Partitioner(Divider(options), model.model, model.macs, 0)
    result = partitioner(model.integer, model.options)
    assert isinstance(result.division, Offloaded)
    return result.division, result


@pytest.mark.parametrize(("on_error", "number"), [("fallback", 0), ("fail", 1)])
def test_each_region_is_a_function_and_its_payload_is_offered_it(on_error: OnNpuError, number: int):
    options = NpuOptions("ethos-u65-256", npu_ops=WISHES, on_npu_error=on_error)
    divided, result = partitioned(prepared("mixed"), options)
    regions = divided.offload.regions
    assert len(regions) > 1
    assert list(result.offers) == [f"fallback_{i}" for i in range(len(regions))]
    for index, (offer, region) in enumerate(zip(result.offers.values(), regions, strict=True)):
        assert offer.symbol == NPU_RUN
        place, fails, payload = offer.arguments
        assert (int(place.value), int(fails.value)) == (index, number)
        assert payload.value.numpy().tobytes() == region.compiled.payload.to_bytes()
    called = [getattr(getattr(b.value, "op", None), "name_hint", "") for b in bindings_of(result.mod["main"])]
    assert [name for name in called if name in result.offers] == list(result.offers)


def test_no_call_without_a_source_in_any_phase_and_memory_is_that_of_the_cpu_alone():
    model = prepared("mixed")
    divide = Partitioner(Divider(NpuOptions("ethos-u65-256", npu_ops=WISHES)), model.model, model.macs, 0)
    peaks = []
    for options in (replace(model.options, divide=divide), model.options):
        results = dict(run_phases(PhaseResult(model.model.mod), options))
        modules = {name: result.mod for name, result in results.items()}
        assert {name: unnamed_calls(mod) for name, mod in modules.items()} == {name: [] for name in modules}
        assert {node for kernel in results["plan"].kernels for node in kernel.sources} <= set(
            model.model.nodes
        )
        memory = memory_of(modules["lower"], modules["plan"])
        peaks.append((memory.peak_activation_bytes, memory.widest[0].live_bytes))
    # Nothing is fused across the borders of regions.
    assert peaks[0][1] == peaks[1][1]
    assert peaks[0][0] <= 1.1 * peaks[1][0]


def test_estimates_are_of_the_graph_before_it_is_divided_and_not_in_the_report():
    divided, result = partitioned(prepared("whole"), NpuOptions("ethos-u65-256"))
    assert result.kernels == ()
    # It is so small that it stays on the CPU.
    assert (divided.offload.regions, result.offers) == ((), {})
