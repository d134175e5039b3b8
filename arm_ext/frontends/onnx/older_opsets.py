# SPDX-License-Identifier: Apache-2.0
"""Replacements of operators as older opsets define them, which TVM's importer or onnx's checker does not know."""

import numpy as np
from onnx import NodeProto, helper

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import ints, reshape

_TOP_K_BY_INPUT = 10
"""First opset in which TopK's k is an input; from the next one on, TVM's importer reads it there, too."""


def slice_by_attributes(e: Expansion) -> None:
    """Replace Slice of opsets before 10, whose bounds are attributes."""
    bounds = [[*map(int, e.numbers(name))] for name in ("starts", "ends", "axes")]
    inputs = [ints(e, *(numbers or range(len(bounds[0])))) for numbers in bounds]
    # onnx infers the shape from the attributes; the importer reads the inputs.
    e.emit("Slice", [e.node.input[0], *inputs], e.node.output[0], e.attributes())


def top_k_by_input(e: Expansion) -> None:
    """Replace TopK of opset 10, whose k is an input: TVM's importer reads k from an attribute, as in older opsets."""
    if e.opset() != _TOP_K_BY_INPUT or any(a.name == "k" for a in e.node.attribute):
        return
    count = e.known(e.inputs("X K")[1])
    node = NodeProto()
    node.CopyFrom(e.node)
    node.attribute.append(helper.make_attribute("k", int(count.reshape(-1)[0])))
    e.adopt(node)


def group_norm_by_group(e: Expansion) -> None:
    """Replace GroupNormalization of opsets 18 to 20, which has a scale and a bias per group, not per channel."""
    x, scale, bias = e.inputs("X scale bias")
    dims, groups = e.dims(x), int(e.attribute("num_groups", 1))
    ones, zeros = (e.constant(np.full(groups, value, e.dtype(x))) for value in (1, 0))
    rows = reshape(e, x, dims[0], groups, -1)
    epsilon = e.attribute("epsilon", 1e-5)
    normal = e.emit("InstanceNormalization", [rows, ones, zeros], epsilon=epsilon)
    scaled = e.emit("Mul", [normal, reshape(e, scale, 1, groups, 1)])
    shifted = e.emit("Add", [scaled, reshape(e, bias, 1, groups, 1)])
    reshape(e, shifted, *dims, output=e.node.output[0])
