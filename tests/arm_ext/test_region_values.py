# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.ethosu.partition import grow
from arm_ext.package import RegionValues
from arm_ext.region_values import region_values
from arm_ext.selftest import random_inputs, run_on_host
from schedules.numerics import tosa
from tests.arm_ext.ethosu.divided import named, prepared


def test_values_are_those_that_the_model_computes():
    model = prepared("whole")
    inputs = random_inputs(model.model.inputs)
    graph = model.graph
    first, second = (grow(graph, [named(graph, node)])[0] for node in ("narrow", "depthwise"))
    before, after = region_values(model.integer, [first, second], inputs)
    np.testing.assert_array_equal(before.outputs[0], after.inputs[0])
    (expected,) = run_on_host(model.model.mod, inputs, numerics=tosa.NUMERICS)
    np.testing.assert_array_equal(after.outputs[0].transpose(0, 3, 1, 2), expected)


def test_a_region_that_reads_the_models_input_has_it():
    model = prepared("whole")
    graph = model.graph
    (part,) = grow(graph, graph.operators)
    inputs = random_inputs(model.model.inputs)
    (values,) = region_values(model.integer, [part], inputs)
    assert [v.shape for v in values.inputs] == [t.shape for t in part.inputs]
    assert [v.dtype for v in values.outputs] == [np.dtype(t.dtype) for t in part.outputs]


def test_no_regions_have_no_values():
    model = prepared("whole")
    assert region_values(model.integer, [], random_inputs(model.model.inputs)) == []


def test_values_survive_a_round_trip():
    values = RegionValues([np.arange(i + 1, dtype=np.int8) for i in range(11)], [np.array([[7]], np.int16)])
    read = RegionValues.from_bytes(values.to_bytes())
    # More than ten, so that an order by name would show.
    assert [v.size for v in read.inputs] == list(range(1, 12))
    assert (read.outputs[0].dtype, read.outputs[0].shape) == (np.dtype("int16"), (1, 1))
    assert values.to_bytes() == values.to_bytes()
