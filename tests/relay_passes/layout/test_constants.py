# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.ir.sources import with_source
from relay_passes.layout.constants import Static, static_call, static_of
from relay_passes.layout.form import Flat, Form

DATA = np.arange(8 * 3 * 5 * 2, dtype="int8").reshape(8, 3, 5, 2)
SCALE = np.linspace(0.5, 2, 8, dtype="float32")
ZERO = np.arange(8, dtype="int8")


def real(static: Static) -> np.ndarray:
    """The float value that a static stands for."""
    if not static.is_per_axis:
        return static.data.astype("float32") * (1 if static.scale is None else static.scale)
    shape = [-1 if axis == static.axis else 1 for axis in range(static.data.ndim)]
    zero = static.zero_point.reshape(-1 if static.zero_point.size == 1 else shape)
    return (static.data.astype("float32") - zero) * static.scale.reshape(shape)


def dequantized(data: np.ndarray = DATA, axis: int = 0) -> relax.Call:
    parts = [relax.const(value) for value in (data, SCALE, ZERO)]
    return with_source(relax.BlockBuilder().normalize(op.dequantize(*parts, axis=axis)), ["weights"])


def after(*steps: relax.Call) -> Static | None:
    """What is known of the last of some calls, each on `v` as the last one left it."""
    found = static_call(dequantized(), {})
    for step in steps:
        assert found is not None
        found = static_call(step, {step.args[0]: found})
    return found


def step(make: object, *shape: int) -> relax.Call:
    var = relax.Var("v", relax.TensorType(shape, "float32"))
    return with_source(relax.BlockBuilder().normalize(make(var)), ["reshape"])


def test_moved_weights_keep_their_scales_by_channel():
    weights = after()
    moved = weights.moved(Form.ordered(DATA.shape, (1, 2, 3, 0)))
    assert moved.axis == 3
    np.testing.assert_array_equal(real(moved), real(weights).transpose(1, 2, 3, 0))
    assert moved.data.dtype == np.int8


def test_dequantize_comes_back_as_a_call():
    call = after().moved(Form.ordered(DATA.shape, (0, 2, 3, 1))).expr()
    assert call.op.name == "relax.dequantize"
    assert (int(call.attrs.axis), str(call.args[0].ty.dtype)) == (0, "int8")


def test_bias_reshaped_to_a_column_keeps_its_scales():
    bias = static_call(dequantized(DATA[:, 0, 0, 0]), {})
    call = step(lambda v: op.reshape(v, (1, 8, 1, 1)), 8)
    column = static_call(call, {call.args[0]: bias})
    assert (column.axis, column.data.shape, column.nodes) == (1, (1, 8, 1, 1), ("weights", "reshape"))
    moved = column.moved(Form.ordered((1, 8, 1, 1), (0, 2, 3, 1)))
    np.testing.assert_array_equal(real(moved).reshape(-1), real(bias))


def test_transposed_matrix_follows():
    matrix = static_call(dequantized(DATA.reshape(8, 30)), {})
    call = step(lambda v: op.permute_dims(v, [1, 0]), 8, 30)
    turned = static_call(call, {call.args[0]: matrix})
    assert turned.axis == 1
    np.testing.assert_array_equal(real(turned), real(matrix).T)


def test_scales_of_a_flattened_axis_are_reordered_with_it():
    weights = static_call(dequantized(DATA[:, 0, 0, :]), {})
    form = Form((8, 2), (0, 1), (Flat((4, 2), (1, 0)), None))
    expected = real(weights).reshape(4, 2, 2).transpose(1, 0, 2).reshape(8, 2)
    np.testing.assert_array_equal(real(weights.moved(form)), expected)


def test_a_reshape_that_tears_the_scales_axis_is_no_constant():
    assert after(step(lambda v: op.reshape(v, (4, 60)), *DATA.shape)) is None


def test_a_quantised_number_has_no_axis_to_follow():
    parts = (relax.const(np.int8(3)), relax.const(np.float32(0.5)), relax.const(np.int8(0)))
    number = static_call(relax.BlockBuilder().normalize(op.dequantize(*parts)), {})
    assert number.moved(Form.ordered((), ())).data == 3
    assert number.moved(Form.ordered((1, 1), (1, 0))).data.shape == (1, 1)


@pytest.mark.parametrize("value", [np.float32(2), np.arange(3)])
def test_plain_constants(value: np.ndarray):
    np.testing.assert_array_equal(static_of(relax.const(value), {}).data, value)


def test_a_run_time_value_is_not_static():
    var = relax.Var("v", relax.TensorType((8,), "float32"))
    assert static_of(var, {}) is None
    assert static_call(step(lambda v: op.reshape(v, (2, 4)), 8), {}) is None
