# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.ethosu.partition.parts import grow
from arm_ext.ethosu.partition.region_values import region_values
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.package import RegionValues
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import baseline_host
from schedules.numerics import tosa
from tests.arm_ext.ethosu.partition.divided import named, prepared


def host() -> PhaseOptions:
    return PhaseOptions(baseline_host(), numerics=tosa.NUMERICS)


def test_values_are_those_that_the_model_computes():
    model = prepared("whole")
    inputs = random_inputs(model.model.inputs)
    graph = model.graph
    first, second = (grow(graph, [named(graph, node)])[0] for node in ("narrow", "depthwise"))
    outputs, (before, after) = region_values(model.integer.mod, [first, second], inputs, host())
    np.testing.assert_array_equal(before.outputs[0], after.inputs[0])
    (expected,) = run_on_host(model.model.mod, inputs, numerics=tosa.NUMERICS)
    np.testing.assert_array_equal(after.outputs[0].transpose(0, 3, 1, 2), expected)
    np.testing.assert_array_equal(outputs, [expected])


def test_a_region_that_reads_the_models_input_has_it():
    model = prepared("whole")
    graph = model.graph
    (part,) = grow(graph, graph.operators)
    inputs = random_inputs(model.model.inputs)
    _, (values,) = region_values(model.integer.mod, [part], inputs, host())
    assert [v.shape for v in values.inputs] == [t.shape for t in part.inputs]
    assert [v.dtype for v in values.outputs] == [np.dtype(t.dtype) for t in part.outputs]


def test_no_regions_have_no_values():
    model = prepared("whole")
    outputs, regions = region_values(model.integer.mod, [], random_inputs(model.model.inputs), host())
    assert len(outputs) == len(model.model.outputs)
    assert regions == []


def test_values_survive_a_round_trip():
    values = RegionValues([np.arange(i + 1, dtype=np.int8) for i in range(11)], [np.array([[7]], np.int16)])
    read = RegionValues.from_bytes(values.to_bytes())
    # More than ten, so that an order by name would be noticed.
    assert [v.size for v in read.inputs] == list(range(1, 12))
    assert (read.outputs[0].dtype, read.outputs[0].shape) == (np.dtype("int16"), (1, 1))
    assert values.to_bytes() == values.to_bytes()
