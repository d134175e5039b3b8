# SPDX-License-Identifier: Apache-2.0
import hashlib
import logging
import os
import subprocess
import sys
import warnings

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from arm_ext.api import digits
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.reference import open_session, run_onnxruntime
from arm_ext.frontends.onnx.weights import serialise
from arm_ext.package.manifest import Method
from arm_ext.quantization.static import Quantizer, quantize
from tests.arm_ext.models import mlp, model, residual_cnn
from tests.arm_ext.quantization.uneven import training_images


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("method", "count"),
    [("minmax", 200), ("percentile", 200), pytest.param("entropy", 50, marks=pytest.mark.long), ("mse", 200)],
)
def test_digits_stay_accurate(method: Method, count: int):
    proto = quantize(digits.model_path("fp32"), {"inputs": training_images(count)}, method=method)
    images, labels = digits.held_out()
    session = open_session(serialise(proto), integers=True)
    found = [session.run(None, {"image": image[None]})[0].argmax() for image in images]
    # In float 357 of the 360 are right.
    assert np.mean(found == labels) >= 0.97


def test_methods_find_ranges_of_their_own():
    # One outlier in 4,000 values: percentile and entropy cut it off, min-max keeps it, and so does the least error.
    samples = {"x": normal(129, 1, 31)}
    samples["x"][0, 0, 0] = 100
    # One product: the time of entropy is by tensors.
    source = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 31]}, ["y"], {"w": normal(31, 2)}
    )
    protos = {
        method: quantize(source, samples, method=method)
        for method in ("minmax", "percentile", "entropy", "mse")
    }
    scales = {method: float(initializer(proto, "x_scale")) for method, proto in protos.items()}
    assert scales["minmax"] == pytest.approx(100 / 255, rel=0.1)
    assert scales["entropy"] < scales["minmax"] / 2
    assert scales["percentile"] < scales["minmax"]
    assert scales["entropy"] < scales["mse"] <= scales["minmax"]


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "mse"])
@pytest.mark.parametrize("least", [-np.inf, np.finfo(np.float32).min, -1e9, -1e4])
def test_masks_of_attention_stay_in_float(least: float, method: Method):
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["scores"], "scores"),
        helper.make_node("Cast", ["m"], ["attended"], "attended", to=onnx.TensorProto.BOOL),
        helper.make_node("Where", ["attended", "zero", "least"], ["mask"], "mask"),
        helper.make_node("Add", ["scores", "mask"], ["masked"], "masked"),
        helper.make_node("Softmax", ["masked"], ["p"], "softmax"),
        helper.make_node("MatMul", ["p", "v"], ["y"], "y"),
    ]
    held = {"k": normal(16, 8) / 4, "v": normal(8, 5), "zero": np.float32(0), "least": np.float32(least)}
    source = model(nodes, {"x": [4, 16], "m": [1, 8]}, ["y"], held)
    samples = {"x": normal(8, 4, 16), "m": np.tile(np.float32(np.arange(8) < 6), (8, 1, 1))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = Quantizer(source, samples, method, ({},))
        quantized = made.quantized({})
    rounded = {node.input[0] for node in quantized.graph.node if node.op_type == "QuantizeLinear"}
    assert {"x", "scores", "p"} <= rounded
    assert not {"mask", "masked"} & rounded
    if method == "minmax":  # others cut the scores, too
        assert made.calibration(method, "0" * 64).distance[0].sqnr_db > 35


@pytest.mark.parametrize("method", ["minmax", "mse"])
def test_nan_is_told_with_its_tensor(method: Method):
    node = helper.make_node("Sqrt", ["x"], ["root"])
    last = helper.make_node("MatMul", ["root", "w"], ["y"])
    source = model([node, last], {"x": [1, 8]}, ["y"], {"w": np.eye(8, dtype=np.float32)})
    samples = np.ones((4, 1, 8), np.float32)
    samples[2, 0, 3] = -1
    with pytest.raises(ModelError, match=r"'(root|y)' is NaN in sample 2 \(from 0\)"):
        quantize(source, {"x": samples}, method=method)


def initializer(proto: onnx.ModelProto, name: str) -> np.ndarray:
    return numpy_helper.to_array(next(i for i in proto.graph.initializer if i.name == name))


def kept_names(proto: onnx.ModelProto) -> list[str]:
    added = {"QuantizeLinear", "DequantizeLinear"}
    return [node.name for node in proto.graph.node if node.op_type not in added]


def test_weights_are_signed_symmetric_per_channel_and_activations_signed():
    proto = quantize(residual_cnn(), {"x": normal(4, 1, 3, 9, 7)})
    assert initializer(proto, "w_quantized").dtype == np.int8
    assert initializer(proto, "w_scale").shape == (8,)
    assert not initializer(proto, "w_zero_point").any()
    assert initializer(proto, "x_zero_point").dtype == np.int8


def test_nodes_keep_their_names():
    source = residual_cnn()
    proto = quantize(source, {"x": normal(4, 1, 3, 9, 7)})
    # The zero point of the relu's output stands for the relu.
    assert kept_names(proto) == [node.name for node in source.graph.node if node.name != "relu"]
    onnx.checker.check_model(proto, full_check=True)


def test_constants_are_folded_into_the_convolution_before_them():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Mul", ["c", "scale"], ["s"], name="scale"),
        helper.make_node("Add", ["s", "b"], ["y"], name="bias"),
    ]
    weights = {"w": normal(8, 3, 3, 3), "scale": normal(8, 1, 1), "b": normal(8, 1, 1)}
    source = model(nodes, {"x": [1, 3, 9, 9]}, ["y"], weights)
    assert kept_names(quantize(source, {"x": normal(8, 1, 3, 9, 9)})) == ["conv"]


def test_unnamed_nodes_get_the_front_ends_names():
    source = mlp()
    for node in source.graph.node:
        node.ClearField("name")
    names = {node.name for node in quantize(source, {"x": normal(4, 2, 31)}).graph.node}
    # A node's output may be renamed by the quantiser, its name may not.
    assert {"h", "hb", "y"} <= names


def test_batch_norm_is_folded_into_the_convolution_before_it():
    rng = np.random.default_rng(4)
    weights = {"w": rng.standard_normal((8, 3, 3, 3), dtype=np.float32)}
    weights |= {name: rng.random(8, dtype=np.float32) + 0.5 for name in ("gamma", "beta", "mean", "var")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], name="norm"),
        helper.make_node("Flatten", ["n"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "fc"], ["m"], name="fc"),
        helper.make_node("Add", ["m", "b"], ["y"], name="bias"),
    ]
    weights |= {"fc": normal(8 * 7 * 7, 5), "b": normal(5)}
    source = model(nodes, {"x": [1, 3, 9, 9]}, ["y"], weights)
    proto = quantize(source, {"x": normal(8, 1, 3, 9, 9)})
    assert kept_names(proto) == ["conv", "flat", "fc", "bias"]
    x = normal(1, 3, 9, 9)
    exact, quantized = (
        run_onnxruntime(p.SerializeToString(), [x], integers=False)[0] for p in (source, proto)
    )
    # A few steps of an int8 output, whose range is about twice the largest value.
    assert np.abs(exact - quantized).max() <= 6 * np.abs(exact).max() / 127


@pytest.mark.parametrize("opset", [9, 11, 12, 13])
def test_old_opsets_are_brought_to_one_with_channels(opset: int):
    source = mlp()
    source.opset_import[0].version = opset
    proto = quantize(source, {"x": normal(4, 2, 31)})
    assert proto.opset_import[0].version == 13
    assert initializer(proto, "w1_scale").shape == (9,)
    assert {"fc1", "fc1/bias", "fc2"} <= {node.name for node in proto.graph.node}


def test_dynamic_dimension_needs_a_shape():
    samples = {"x": normal(4, 2, 31)}
    with pytest.raises(UsageError, match="--shape x=1,31"):
        quantize(mlp("n"), samples)
    proto = quantize(mlp("n"), samples, shapes={"x": (2, 31)})
    assert [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim] == [2, 31]


def test_quantized_model_is_refused():
    with pytest.raises(UsageError, match="digits_int8: is already quantised"):
        quantize(digits.model_path("int8"), {"inputs": training_images(1)})


def test_unsupported_operator_is_named():
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="frob1", domain="acme")
    with pytest.raises(ModelError, match=r"acme\.Frobnicate \(1x\): frob1"):
        quantize(model([node], {"x": [1]}, ["y"], domains=("acme",)), {"x": normal(2, 1)})


def test_what_onnxruntime_refuses_is_a_finding_about_the_model():
    # An index out of range: shapes alone do not tell.
    source = model(
        [helper.make_node("Gather", ["x", "i"], ["y"])], {"x": [2, 7]}, ["y"], {"i": np.array([9])}
    )
    with pytest.raises(ModelError, match=r"onnxruntime cannot quantise it: .*out of data bounds"):
        quantize(source, {"x": normal(3, 2, 7)})


def test_two_processes_write_the_same_bytes():
    code = (
        "import hashlib, numpy as np\n"
        "from arm_ext.cli.loading import load_tvm\n"
        "load_tvm()\n"
        "from arm_ext.api import digits\n"
        "from arm_ext.quantization.static import quantize\n"
        "x = np.random.default_rng(5).random((9, 1, 8, 8), dtype=np.float32)\n"
        "proto = quantize(digits.model_path('fp32'), {'inputs': x})\n"
        "print(hash('seed'), hashlib.sha256(proto.SerializeToString()).hexdigest())"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    other, found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert int(other) != hash("seed")
    x = np.random.default_rng(5).random((9, 1, 8, 8), dtype=np.float32)
    here = quantize(digits.model_path("fp32"), {"inputs": x})
    assert hashlib.sha256(here.SerializeToString()).hexdigest() == found


def test_quantiser_prints_nothing(capfd: pytest.CaptureFixture[str]):
    handlers = list(logging.root.handlers)
    quantize(mlp(1), {"x": normal(4, 1, 31)}, method="percentile")
    assert capfd.readouterr() == ("", "")
    assert logging.root.handlers == handlers
    assert logging.root.manager.disable == logging.NOTSET


def test_loaded_model_is_left_as_it_was():
    source = mlp(1)
    before = hashlib.sha256(source.SerializeToString()).hexdigest()
    quantize(source, {"x": normal(4, 1, 31)})
    assert hashlib.sha256(source.SerializeToString()).hexdigest() == before


def test_a_quantised_model_that_is_changed_is_not_returned_again():
    quantizer = Quantizer(mlp(1), {"x": normal(4, 1, 31)}, "minmax", ({},))
    first = quantizer.quantized({})
    before = first.SerializeToString()
    first.graph.ClearField("node")
    assert quantizer.quantized({}).SerializeToString() == before
    others = [node.name for node in quantizer.float_model({}).graph.node]
    assert "QuantizeLinear" not in {node.op_type for node in quantizer.quantized({}, others).graph.node}
