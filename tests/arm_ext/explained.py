# SPDX-License-Identifier: Apache-2.0
"""A model with everything that `explain` tells: rules that applied, were refused, nearly matched, were not tried."""

import math

import numpy as np
import onnx
from onnx import helper

from tests.arm_ext.models import model

CHANNELS = 7


def explained(quantised: bool = False) -> onnx.ModelProto:
    """conv + BatchNorm; conv + BatchNorm whose sum is needed elsewhere; a GELU with 0.25 in place of 0.5."""
    rng = np.random.default_rng(3)
    weights = {
        "w1": rng.standard_normal((CHANNELS, CHANNELS, 1, 1), dtype=np.float32),
        "w2": rng.standard_normal((CHANNELS, CHANNELS, 3, 3), dtype=np.float32),
        **{name: rng.uniform(0.5, 1.5, CHANNELS).astype(np.float32) for name in ("g", "b", "m", "v")},
        "root": np.float32(math.sqrt(2)),
        "one": np.float32(1),
        "quarter": np.float32(0.25),
        "scale": np.float32(0.125),
        "zero": np.int8(3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="/conv1"),
        helper.make_node("BatchNormalization", ["c1", "g", "b", "m", "v"], ["n1"], name="/norm1"),
        helper.make_node("Conv", ["n1", "w2"], ["c2"], name="/conv2", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c2", "g", "b", "m", "v"], ["n2"], name="/norm2"),
        helper.make_node("Sub", ["n2", "c2"], ["s"], name="/skip"),
        helper.make_node("Div", ["s", "root"], ["d"], name="/gelu/div"),
        helper.make_node("Erf", ["d"], ["e"], name="/gelu/erf"),
        helper.make_node("Add", ["e", "one"], ["a"], name="/gelu/add"),
        helper.make_node("Mul", ["s", "a"], ["p"], name="/gelu/mul"),
        helper.make_node("Mul", ["p", "quarter"], ["y"], name="/gelu/half"),
    ]
    if quantised:
        nodes.append(helper.make_node("QuantizeLinear", ["y", "scale", "zero"], ["q"], name="/quantize"))
        nodes.append(helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["z"], name="/dequantize"))
    return model(nodes, {"x": [1, CHANNELS, 9, 8]}, ["z" if quantised else "y"], weights)
