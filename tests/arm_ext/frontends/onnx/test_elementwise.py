# SPDX-License-Identifier: Apache-2.0
"""Operators of any number of inputs, with as many as no exporter writes; NaN."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize import define_casts

COUNT = 600
# Each is given twenty times: a function of 300 tensors takes LLVM half a minute.
TENSORS = 30


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("Sum", np.sum),
        # Chains of another operator, and of the same one with a division.
        pytest.param("Max", np.max, marks=pytest.mark.long),
        pytest.param("Mean", np.mean, marks=pytest.mark.long),
    ],
)
def test_many(operator: str, function: object):
    names = [f"x{k}" for k in range(TENSORS)]
    node = helper.make_node(operator, names * (COUNT // TENSORS), ["y"], name="many")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    values = list(np.random.default_rng(4).standard_normal((TENSORS, 2, 3)).astype(np.float32))
    (got,) = run_on_host(import_onnx(model).mod, values)
    wanted = function(np.stack(values * (COUNT // TENSORS)).astype(np.float64), axis=0)  # type: ignore[operator]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("operator", ["Sign", "ThresholdedRelu"])
def test_a_nan_is_as_onnx_defines_it(operator: str, dtype: str):
    x = np.array([np.nan, -2, -0.0, 0.5, 3, np.inf]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind, x.shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(run_on_host(import_onnx(model).mod, [x])[0], wanted, strict=True)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_sum_of_exponentials_of_infinities_is_infinite(opset: int, keepdims: int):
    x = np.array([[-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2], [np.nan, 0], [100, 101]], np.float32)
    by_input = opset == 18
    node = helper.make_node(
        "ReduceLogSumExp",
        ["x", "axes"][: 1 + by_input],
        ["y"],
        keepdims=keepdims,
        **({} if by_input else {"axes": [1]}),
    )
    axes = [helper.make_tensor("axes", TensorProto.INT64, [1], [1])] if by_input else []
    ends = helper.make_tensor_value_info("x", 1, x.shape), helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], axes)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    (found,) = run_on_host(import_onnx(model).mod, [x])
    wanted = np.array([-np.inf, np.inf, 2, np.nan, 101 + np.log1p(np.exp(-1))], np.float32)
    np.testing.assert_allclose(found, wanted[:, None] if keepdims else wanted, rtol=1e-6)


@pytest.mark.parametrize("operator", ["Elu", "Selu"])
def test_exponential_units_have_the_dtype_of_their_data(operator: str):
    x = np.array([np.nan, -2, -0.0, 0.5, 3, np.inf, -np.inf])
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, x.shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], alpha=1.5)], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(run_on_host(import_onnx(model).mod, [x])[0], wanted, rtol=1e-7)


@pytest.mark.parametrize(("dtype", "exponent"), [("int32", 2), ("int64", 2.0), ("int64", 39), ("int64", 1)])
def test_powers_of_integers_are_exact_and_wrap_around(dtype: str, exponent: float):
    x = np.array([3, -3, 2, -1, 0, np.iinfo(dtype).max, np.iinfo(dtype).min]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind, x.shape) for name in "xy"]
    number = numpy_helper.from_array(
        np.array(exponent, np.float32 if isinstance(exponent, float) else dtype), "n"
    )
    graph = helper.make_graph([helper.make_node("Pow", ["x", "n"], ["y"])], "g", ends[:1], ends[1:], [number])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (found,) = run_on_host(import_onnx(model).mod, [x])
    np.testing.assert_array_equal(found, x ** np.array(int(exponent), dtype), strict=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_floats_become_integers_as_in_all_compiled_code(dtype: str):
    x = np.array([3e9, -3e9, np.inf, -np.inf, np.nan, 300, -1, 1e20, 2.0**31, 5.7, -5.7], np.float32)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, k, x.shape) for name, k in (("x", 1), ("y", kind))]
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=kind)], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (found,) = run_on_host(import_onnx(model).mod, [x])
    np.testing.assert_array_equal(found, define_casts.cast(x, dtype), strict=True)


def test_layer_norms_of_doubles():
    x = np.random.default_rng(0).standard_normal((2, 7))
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, x.shape) for name in "xy"]
    ones = numpy_helper.from_array(np.ones(7), "n")
    graph = helper.make_graph(
        [helper.make_node("LayerNormalization", ["x", "n"], ["y"])], "g", ends[:1], ends[1:], [ones]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (found,) = run_on_host(import_onnx(model).mod, [x])
    centred = x - x.mean(1, keepdims=True)
    wanted = centred / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, atol=2e-6)  # onnx computes it in float32
