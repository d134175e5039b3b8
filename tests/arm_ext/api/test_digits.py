# SPDX-License-Identifier: Apache-2.0
"""The digits model that ships: what it is, and that the README says its accuracy."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from sklearn.datasets import load_digits

from arm_ext.api import digits
from arm_ext.frontends.onnx.reference import open_session
from arm_ext.frontends.onnx.weights import Serialised

MAX_BYTES = 200_000
MAX_PARAMETERS = 50_000
LEAST_ACCURACY = 0.98
MAX_LOSS_BY_INT8 = 0.005
PIXEL_MAX = 16
README = Path(__file__).parents[3] / "README.md"

precisions = pytest.mark.parametrize("precision", ["int8", "fp32"])


def test_held_out_images_are_the_data_sets_own_with_their_labels() -> None:
    source = load_digits()
    known = {
        image.astype(np.uint8).tobytes(): label
        for image, label in zip(source.images, source.target, strict=True)
    }
    images, labels = digits.held_out()
    assert images.shape == (360, 1, 8, 8)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    pixels = (images * PIXEL_MAX).astype(np.uint8)
    assert [known[p.tobytes()] for p in pixels] == labels.tolist()
    assert len({p.tobytes() for p in pixels}) == len(pixels)


def test_held_out_labels_are_stratified() -> None:
    share = np.bincount(load_digits().target) / 1797 * 360
    assert np.abs(np.bincount(digits.held_out()[1]) - share).max() <= 1


@precisions
def test_model_is_small_valid_and_every_node_is_named(precision: digits.Precision) -> None:
    path = digits.model_path(precision)
    assert path.stat().st_size < MAX_BYTES
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    assert {"conv1", "conv2/depthwise", "conv3", "logits"} <= set(names)


def test_fp32_has_no_more_parameters_than_stated() -> None:
    weights = onnx.load(digits.model_path("fp32")).graph.initializer
    assert sum(int(np.prod(w.dims)) for w in weights) < MAX_PARAMETERS


def test_int8_is_qdq_with_signed_activations_and_symmetric_weights_per_channel() -> None:
    graph = onnx.load(digits.model_path("int8")).graph
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}
    quantizers = [node for node in graph.node if node.op_type == "QuantizeLinear"]
    assert quantizers
    assert {constants[node.input[2]].dtype for node in quantizers} == {np.dtype(np.int8)}
    weights = [node for node in graph.node if node.name.endswith("weight_DequantizeLinear")]
    assert len(weights) == sum(node.op_type in ("Conv", "Gemm") for node in graph.node)
    for node in weights:
        weight, scale, zero_point = (constants[name] for name in node.input)
        assert weight.dtype == np.int8
        assert scale.shape == (weight.shape[0],)
        assert not zero_point.any()


@precisions
def test_accuracy_is_what_is_stated(precision: digits.Precision) -> None:
    images, labels = digits.held_out()
    model = Serialised(digits.model_path(precision).read_bytes())
    # A plain session's integers saturate on processors without VNNI.
    session = open_session(model, integers=True)
    logits = [session.run(None, {"image": image})[0] for image in images[:, None]]
    right = sum(int(row.argmax() == label) for row, label in zip(logits, labels, strict=True))
    assert right / len(labels) == digits.ACCURACY[precision]
    assert f"{precision} {right} of {len(labels)}" in README.read_text()


def test_accuracy_is_high_and_int8_keeps_it() -> None:
    assert digits.ACCURACY["fp32"] >= LEAST_ACCURACY
    assert digits.ACCURACY["fp32"] - digits.ACCURACY["int8"] <= MAX_LOSS_BY_INT8
