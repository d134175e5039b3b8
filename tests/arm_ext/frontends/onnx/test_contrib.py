# SPDX-License-Identifier: Apache-2.0
"""Operators of onnxruntime's own, imported and run on this machine, against onnxruntime."""

import numpy as np
import pytest
from onnx import helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.contrib import EXPANSIONS
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import module_runner, run_on_host
from tests.arm_ext.frontends.onnx.contrib_cases import CASES, Case
from tests.arm_ext.frontends.onnx.one_node import MS, OneNode, set_output_shapes
from tests.arm_ext.frontends.onnx.test_quantized import import_and_run
from tests.arm_ext.models import model

# Those that have a test of their own, and those that take the standard operator of the same name.
ELSEWHERE = {
    (MS, name)
    for name in (
        "NhwcFusedConv",
        "GroupNormalization",
        "LayerNormalization",
        "SimplifiedLayerNormalization",
        "GatherND",
        "Range",
        "Trilu",
    )
}

WINDOW = {"activation": "Relu", "strides": [2, 1], "pads": [1, 0, 1, 1]}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_operator(case: Case):
    node = case()
    found, expected, imported = import_and_run(node.build(), node.values())
    assert imported.nodes == {"q": node.op}
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        # Sums of tens of products in another order, and exponentials of them.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def test_channels_last_convolution():
    """Against FusedConv: onnxruntime has kernels for it on some processors alone."""
    node = OneNode("NhwcFusedConv", outputs=("float32",), attributes=WINDOW).take("float32", 1, 9, 7, 3)
    proto = node.weight("float32", 5, 3, 3, 3).build()
    plain = OneNode("FusedConv", outputs=("float32",), attributes=WINDOW).take("float32", 1, 3, 9, 7)
    plain.weights, plain.names = node.weights, node.names
    (image,) = node.values()
    (expected,) = run_onnxruntime(
        plain.build().SerializeToString(), [image.transpose(0, 3, 1, 2).copy()], integers=False
    )
    expected = expected.transpose(0, 2, 3, 1)
    set_output_shapes(proto, [expected])
    (found,) = run_on_host(import_onnx(proto).mod, [image])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_every_operator_has_a_case():
    assert {(MS, case().op) for case in CASES.values()} | ELSEWHERE == set(EXPANSIONS)


def test_norms_in_the_standard_domain():
    """As onnxruntime's optimiser writes them, whatever the model's opset."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "b"], ["n"], name="layer", epsilon=1e-3),
        helper.make_node("SimplifiedLayerNormalization", ["n", "g"], ["y"], name="root"),
    ]
    weights = {"g": rng.standard_normal(9, dtype=np.float32), "b": rng.standard_normal(9, dtype=np.float32)}
    proto = model(nodes, {"x": [2, 3, 9]}, ["y"], weights)
    proto.opset_import[0].version = 13
    (found,), (expected,), imported = import_and_run(
        proto, [rng.standard_normal((2, 3, 9)).astype(np.float32)]
    )
    assert imported.nodes == {"layer": "LayerNormalization", "root": "SimplifiedLayerNormalization"}
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


REFUSED = {
    "rotary": (
        OneNode("Attention", attributes={"num_heads": 2, "do_rotary": 1})
        .take("float32", 2, 3, 9)
        .weight("float32", 9, 9),
        "use RotaryEmbedding before a MultiHeadAttention",
    ),
    "packed": (OneNode("MultiHeadAttention").take("float32", 2, 3, 2, 3, 8), "packed into one input"),
    "statistics": (
        OneNode("SkipLayerNormalization", outputs=("float32",) * 2)
        .take("float32", 2, 9)
        .take("float32", 2, 9),
        "include mean or deviation",
    ),
    "misfit": (
        OneNode("Attention").take("float32", 2, 9).weight("float32", 9, 9),
        "do not fit its definition",
    ),
    "opset": (
        OneNode("Trilu", opset=13).take("float32", 2, 9),
        "the standard operator of this name exists from opset 14",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_a_form_that_is_refused(case: tuple[OneNode, str]):
    node, reason = case
    while len(node.names) < 3:
        node.weight("float32", 9)
    proto = node.build()
    set_output_shapes(proto, [np.empty(1)] * len(node.outputs))
    with pytest.raises(ModelError, match=reason):
        import_onnx(proto)


def test_lengths_at_run_time():
    """One package takes the prompt and the steps after it, as decoders are exported: the mask tells how many count."""
    given = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    node = OneNode("GroupQueryAttention", outputs=("float32",) * 3, attributes=given)
    node.take("float32", 1, 2, 64).take("float32", 1, 2, 32).take("float32", 1, 2, 32)
    node.take("float32", 1, 2, 8, 16).take("float32", 1, 2, 8, 16).take("int32", 1).take("int32", 1)
    proto = node.weight("float32", 16, 8).weight("float32", 16, 8).build()
    *values, _, _ = node.values()
    run = None
    for total in (2, 7):
        inputs = [*values, np.array([total - 1], np.int32), np.array([total], np.int32)]
        expected = run_onnxruntime(proto.SerializeToString(), inputs, integers=False)
        if run is None:
            set_output_shapes(proto, expected)
            run = module_runner(import_onnx(proto).mod)
        for ours, theirs in zip(run(inputs), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("mask", [False, True])
def test_masks_have_the_type_of_the_scores(mask: bool):
    node = OneNode(
        "MultiHeadAttention", outputs=("float16",), attributes={"num_heads": 2, "unidirectional": 1}
    )
    node.take("float16", 1, 3, 16).take("float16", 1, 3, 16).take("float16", 1, 3, 16).skip()
    proto = (node.hold([[1, 1, 0]], "int32") if mask else node).build()
    values = [np.linspace(-1, 1, 48, dtype=np.float16).reshape(1, 3, 16) * k for k in (1, 2, 3)]
    (found,), (expected,), _ = import_and_run(proto, values)
    # Scores in binary16: two of its steps.
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.0**-9 * np.abs(expected).max())
