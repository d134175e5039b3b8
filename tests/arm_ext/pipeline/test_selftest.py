# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.common.cache import without_entries
from arm_ext.common.distance import ALL_NAN, distance, says_nothing
from arm_ext.frontends import TensorSpec
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.package import Selftest
from arm_ext.package.manifest import Check, Precision
from arm_ext.pipeline.phases import LAST_OF_ALL_TARGETS, PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import (
    check_of,
    make_selftest,
    run_on_host,
    with_fitting_inputs,
    with_measured,
)
from arm_ext.target.profiles import resolve
from tests.arm_ext.models import model

MANY = (1 << 20,)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_quantised_inputs_have_their_full_range(dtype: str):
    (value,) = random_inputs([TensorSpec("x", MANY, dtype)])
    assert value.dtype == dtype
    assert (value.min(), value.max()) == (np.iinfo(dtype).min, np.iinfo(dtype).max)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
def test_indices_are_of_the_first_two(dtype: str):
    (value,) = random_inputs([TensorSpec("x", MANY, dtype)])
    assert value.dtype == dtype
    assert set(np.unique(value)) == {0, 1}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_are_standard_normal(dtype: str):
    (value,) = random_inputs([TensorSpec("x", MANY, dtype)])
    assert value.dtype == dtype
    # Of a million: within five deviations of the mean, which is 1e-3, and of the deviation.
    assert abs(value.mean(dtype=np.float64)) < 5e-3
    assert abs(value.std(dtype=np.float64) - 1) < 5e-3


def test_inputs_are_the_same_each_time():
    specs = [TensorSpec("x", (7,), "float32"), TensorSpec("q", (9,), "int8")]
    for first, second in zip(random_inputs(specs), random_inputs(specs), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 2.0**-10), ("float", 1e-4)])
def test_a_model_of_halves_may_be_off_by_one_of_their_steps(dtype: str, bound: float):
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> g ({dtype}[7,7] x) => ({dtype}[7,7] y) {{y = MatMul(x, x)}}'
    )
    check = check_of(import_onnx(onnx.parser.parse_model(text)))
    assert check.relative_bound == bound
    assert check.differing == (0.01 if dtype == "float16" else 1e-3)


def test_a_bound_of_narrow_types_is_no_less_than_what_the_format_costs(tmp_path: Path):
    """Of columns that are nearly equal the second product takes differences, in which their rounding is large."""
    rng = np.random.default_rng(1)
    same = rng.standard_normal((31, 1)) + 0.02 * rng.standard_normal((31, 64))
    signs = np.tile([[1], [-1]], (32, 9))
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])],
        {"x": [7, 31]},
        ["y"],
        {"w": same.astype(np.float32), "v": signs.astype(np.float32)},
    )
    result = arm_ext.compile(proto, "arm", tmp_path / "p", precision="fp16")
    check, selftest = result.package.manifest.check, result.package.selftest()
    own = distance(selftest.expected[0], selftest.source[0]).relative
    assert check.relative_bound == min(2 * own, 0.15)
    assert check.relative_bound > 2.0**-10 * 2**0.5
    assert "the outputs differ by" in check.reason
    assert arm_ext.run(result.package, check=True).checks[0].passed


@pytest.mark.parametrize(("precision", "own", "bound"), [
    ("fp16", 0.001, 0.004), ("fp16", 0.01, 0.02), ("fp16", 0.1, 0.15), ("fp16", np.nan, 0.004), ("fp32", 0.01, 0.004),
])  # fmt: skip
def test_a_measured_bound(precision: Precision, own: float, bound: float):
    check = Check(relative_bound=0.004, reason="layers")
    reference = np.ones((2, 9), np.float32)
    expected = reference + np.float32(own)
    selftest = Selftest([], [expected], [reference], "onnxruntime")
    found = with_measured(check, precision, selftest)
    assert found.relative_bound == pytest.approx(bound, rel=1e-5)
    assert with_measured(check, precision, replace(selftest, source=[])) == check


_QUANTISED = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d)"
_IF = (
    "g = ReduceMax<keepdims = 0>(x) up = Greater(g, s) y = If(up) <then_branch = a () => (float[4,4] t) "
    "{p = MatMul(x, x) t = Relu(p)}, else_branch = b () => (float[4,4] e) {e = Neg(x)}>"
)
_LOOP = (
    "n = ReduceMax<keepdims = 0>(i) y = Loop(n, yes, x) "
    "<body = b (int64 k, bool c, float[4,4] v) => (bool d, float[4,4] w) {d = Identity(c) w = MatMul(v, x)}>"
)


@pytest.mark.parametrize("nodes", [_QUANTISED, _IF, _LOOP], ids=["straight", "if", "loop"])
def test_a_self_test_goes_on_from_what_does_the_same_for_all_targets(nodes: str):
    looped = nodes is _LOOP
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> g (float[4,4] x{", int64[1] i" if looped else ""}) => (float[4,4] y) '
        f"<float s = {{0.5}}, int8 z = {{0}}, bool yes = {{1}}> {{{nodes}}}"
    )
    model = import_onnx(onnx.parser.parse_model(text))
    options = PhaseOptions(resolve("arm"))
    prepared = last(run_phases(PhaseResult(model.mod), options, until=LAST_OF_ALL_TARGETS)).mod
    x = np.linspace(-2, 2, 16, dtype=np.float32).reshape(4, 4)
    inputs = [x, np.array([3])] if looped else [x]
    with without_entries():
        once, again = (make_selftest(model, inputs, prepared=start) for start in (None, prepared))
    np.testing.assert_array_equal(once.expected, again.expected)


def _by_length(rows: int = 2, columns: int = 9) -> onnx.ModelProto:
    """The mean of the first columns of each row, which a length of 0 makes NaN."""
    node = helper.make_node
    nodes = [
        node("Unsqueeze", ["length", "axis"], ["row"]),
        node("Less", ["places", "row"], ["mask"]),
        node("Cast", ["mask"], ["kept"], to=TensorProto.FLOAT),
        node("ReduceSum", ["kept", "axis"], ["count"]),
        node("Div", ["x", "count"], ["shares"]),
        node("Mul", ["shares", "kept"], ["y"]),
    ]
    held = {"axis": np.array([1]), "places": np.arange(columns)}
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, columns]),
        helper.make_tensor_value_info("length", TensorProto.INT64, [rows]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns]),
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in held.items()]
    graph = helper.make_graph(nodes, "g", ends[:2], ends[2:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_inputs_with_which_nothing_is_compared_are_replaced():
    model, x = import_onnx(_by_length()), np.ones((2, 9), np.float32)
    drawn = [x, np.zeros(2, np.int64)]

    def computed(inputs: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return inputs, run_on_host(model.mod, inputs)

    inputs, outputs = with_fitting_inputs(computed, drawn, False, lambda result: result[1])
    assert inputs[1].tolist() != [0, 0]
    assert np.isfinite(outputs[0]).all()
    # What the user gave stays.
    inputs, outputs = with_fitting_inputs(computed, drawn, True, lambda result: result[1])
    assert inputs is drawn
    assert says_nothing(outputs[0]) == ALL_NAN
