# SPDX-License-Identifier: Apache-2.0
"""Parsing of the integer graph: the calls that each operator covers, and the reasons of those left."""

import numpy as np
import onnx

from arm_ext.ethosu.ops.common.operators import NpuGraph
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.ops.convolution import Convolution
from arm_ext.ethosu.partition.read import read
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, weights
from tests.fuzz.npu import integer_graph


def graph_of(model: onnx.ModelProto) -> NpuGraph:
    return read(integer_graph(model)[0])


def kinds(graph: NpuGraph) -> list[str]:
    return [operator.kind for operator in graph.operators]


def convolution(**attributes: object) -> NpuGraph:
    one = OneOperator()
    w = one.weight(weights((7, 3, 3, 3)))
    y = one.node("Conv", one.data(1, 3, 9, 8), w, one.constant(np.arange(7) * 0.5), **attributes)
    return graph_of(one.model(one.quantized(one.node("Relu", y), 2.0)))


def test_a_convolution_takes_in_padding_bias_zero_point_and_clamp():
    conv = next(op for op in convolution(pads=[1, 0, 2, 1], strides=[2, 1]).operators if op.kind == "conv2d")
    given = conv.attributes
    assert isinstance(given, Convolution)
    requantization = given.requantization
    assert given.window == Window((3, 3), strides=(2, 1), padding=(1, 0, 2, 1))
    assert (given.groups, given.input_zero_point) == (1, ZERO)
    assert (requantization.low, requantization.high) == (ZERO, 127)
    # Only the bias is added: the zero point of the data is an attribute of the operator.
    bias = np.rint(np.arange(7) * 0.5 / (np.float32(SCALE) * 0.01))
    np.testing.assert_array_equal(requantization.bias, bias)
    w = np.abs(weights((7, 3, 3, 3)).astype(int)).sum((1, 2, 3)).max()
    assert requantization.magnitude == w * (127 - ZERO) + np.abs(bias).max()
    assert conv.macs == 1 * 7 * 5 * 7 * 27


def test_a_pad_that_others_read_stays_an_operator():
    one = OneOperator()
    widths = one.constant([0, 0, 1, 1, 0, 0, 1, 1], "int64")
    padded = one.quantized(one.node("Pad", one.data(1, 3, 9, 8), widths))
    real = one.dequantized(padded, SCALE, ZERO, "int8")
    y = one.quantized(one.node("Conv", real, one.weight(weights((7, 3, 3, 3)))), 2.0)
    graph = graph_of(one.model(y, padded))
    assert "nn.pad" in kinds(graph)
    (conv,) = [op for op in graph.operators if op.kind == "conv2d"]
    assert not any(conv.attributes.window.padding)


def test_an_average_that_keeps_its_scale_is_a_pool_and_any_other_a_convolution():
    def pooled(scale: float) -> NpuGraph:
        one = OneOperator()
        conv = one.quantized(one.node("Conv", one.data(1, 7, 9, 8), one.weight(weights((7, 7, 1, 1)))))
        y = one.node("AveragePool", one.dequantized(conv, SCALE, ZERO, "int8"), kernel_shape=[3, 2])
        return graph_of(one.model(one.quantized(y, scale)))

    same = next(op for op in pooled(SCALE).operators if op.kind == "average_pool2d")
    assert (same.attributes.window.kernel, same.attributes.input_zero_point) == ((3, 2), ZERO)
    assert "depthwise_conv2d" in kinds(pooled(2 * SCALE))


def test_a_mean_over_channels_is_a_sum():
    one = OneOperator()
    y = one.node("ReduceMean", one.data(2, 7, 9), axes=[2], keepdims=1)
    (total,) = graph_of(one.model(one.quantized(y))).operators
    assert (total.kind, total.attributes.axes) == ("reduce_sum", (2,))


def test_each_part_of_a_split_is_an_operator():
    one = OneOperator()
    sizes = one.constant([2, 5], "int64")
    one.nodes.append(
        onnx.helper.make_node("Split", [one.data(1, 7, 9), sizes], ["a", "b"], axis=1, name="split")
    )
    parts = graph_of(one.model(one.quantized("a"), one.quantized("b"))).operators
    assert [(op.kind, op.attributes.start, op.output.shape) for op in parts] == [
        ("split", 0, (1, 2, 9)),
        ("split", 2, (1, 5, 9)),
    ]


def test_a_constant_operand_is_an_attribute():
    one = OneOperator()
    y = one.node("Mul", one.constant(np.linspace(-1, 1, 9)), one.data(1, 7, 9))
    (product,) = graph_of(one.model(one.quantized(y))).operators
    assert (product.kind, len(product.inputs)) == ("multiply", 1)
    assert product.attributes.a.constant.shape == (9,)
    assert product.attributes.b.constant is None


def test_what_is_no_operator_has_a_reason():
    one = OneOperator()
    y = one.node("Conv", one.data(1, 3, 5, 4), one.weight(weights((7, 3, 1, 1))))
    one.nodes.append(onnx.helper.make_node("Identity", [y], ["real"]))
    left = graph_of(one.model("real", dtype="float32")).unsupported
    assert {(each.operator, each.why.reason) for each in left} >= {
        ("nn.conv2d", "its int32 sums are read by more or others than one requantisation"),
        ("astype", "it computes in float"),
    }
    (conv,) = [each for each in left if each.operator == "nn.conv2d"]
    assert conv.macs == 7 * 5 * 4 * 3
