# SPDX-License-Identifier: Apache-2.0
"""The NPU gives our integers, and where one of the two is wrong on purpose, its operator is named."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm.ir import Var

from arm_ext import NpuOptions
from arm_ext.ethosu.model import convolution
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.partition import agreement
from arm_ext.ethosu.partition.agreement import Agreement
from arm_ext.ethosu.partition.divider import Divider
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.report.accuracy.record import NpuLink
from tests.arm_ext import npu_models
from tests.arm_ext.ethosu.partition.divided import named, prepared

Values = Callable[[Sequence[np.ndarray]], dict[Var, np.ndarray]]


def link_of(model: str = "whole", npu: str = "ethos-u55-128", **options: object) -> NpuLink:
    source = prepared(model)
    divider = Divider(NpuOptions(npu, npu_ops=("conv2d", "depthwise_conv2d"), **options))  # type: ignore[arg-type]
    compared = Agreement(divider, source.divide(divider))
    compared.add(random_inputs(source.model.inputs))
    compared.add([np.ones(spec.shape, spec.dtype) for spec in source.model.inputs])
    return compared.link()


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_regions_give_our_integers(npu: str):
    link = link_of("mixed", npu)
    assert link.equal
    assert link.samples == 2
    assert link.regions
    for region in link.regions:
        assert region.elements > 0
        assert region.begins is None
    assert "narrow" in {name for region in link.regions for name in region.sources}


def test_an_operator_that_the_npu_computes_otherwise_is_named(monkeypatch: pytest.MonkeyPatch):
    """The second of three convolutions, and it alone has so many channels; the third hides none of it."""
    accumulate = convolution.accumulate

    def planted(machine: Machine, total: np.ndarray, joined: np.ufunc = np.add) -> None:
        narrow = machine.running.name == "op_conv" and total.shape[-1] == npu_models.CHANNELS
        accumulate(machine, total + 6000 if narrow else total, joined)

    monkeypatch.setattr(convolution, "accumulate", planted)
    link = link_of()
    assert not link.equal
    (region,) = link.regions
    assert region.differing > 0
    assert region.largest > 1
    assert region.begins is not None
    assert "narrow" in region.begins.nodes
    assert (region.begins.operator, region.begins.wrong) == ("conv2d", "NPU")


def test_a_kernel_of_the_cpu_that_computes_otherwise_is_named(monkeypatch: pytest.MonkeyPatch):
    wrong = named(prepared("whole").graph, "depthwise").output.var
    runner = agreement.value_runner

    def planted(integer: tvm.IRModule, variables: Sequence[Var], options: PhaseOptions) -> Values:
        run = runner(integer, variables, options)

        def values(inputs: Sequence[np.ndarray]) -> dict[Var, np.ndarray]:
            return {var: value ^ 1 if var.same_as(wrong) else value for var, value in run(inputs).items()}

        return values

    monkeypatch.setattr(agreement, "value_runner", planted)
    (region,) = link_of().regions
    assert (region.differing, region.largest) == (region.elements, 1)
    assert region.begins is not None
    assert "depthwise" in region.begins.nodes
    assert region.begins.wrong == "CPU"


def test_what_only_the_whole_region_does_otherwise_names_no_operator():
    source = prepared("whole")
    divider = Divider(NpuOptions("ethos-u55-128", npu_ops=("conv2d", "depthwise_conv2d")))
    divided = source.divide(divider)
    (whole,) = divided.offload.regions
    payload = whole.compiled.payload
    outputs = tuple(replace(each, offset=each.offset + 16) for each in payload.outputs)
    changed = replace(whole, compiled=replace(whole.compiled, payload=replace(payload, outputs=outputs)))
    compared = Agreement(divider, replace(divided, offload=replace(divided.offload, regions=(changed,))))
    compared.add(random_inputs(source.model.inputs))
    (region,) = compared.link().regions
    assert region.differing
    assert region.begins is None
