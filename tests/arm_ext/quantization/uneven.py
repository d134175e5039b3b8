# SPDX-License-Identifier: Apache-2.0
"""Float models whose channels have ranges far apart, as trained networks with depthwise layers and transformers do."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from sklearn.datasets import load_digits

from arm_ext.api import digits
from tests.arm_ext.models import model

WIDTH, HIDDEN, OUTLIERS = 32, 64, (3, 17)


def training_images(count: int) -> np.ndarray:
    """Images of the set that the digits were held out from, without those."""
    held_out = {image.tobytes() for image in digits.held_out()[0]}
    images = (load_digits().images[:, None] / 16).astype(np.float32)
    return np.stack([image for image in images if image.tobytes() not in held_out][:count])


def uneven_digits() -> onnx.ModelProto:
    """Return the trained digits, the channels around their depthwise layer rescaled by factors of e^-2 to e^2."""
    proto = onnx.load(digits.model_path("fp32"))
    held = {tensor.name: tensor for tensor in proto.graph.initializer}
    rng = np.random.default_rng(3)

    def scale(name: str, axis: int, factors: np.ndarray) -> None:
        value = numpy_helper.to_array(held[name])
        shape = [-1 if i == axis else 1 for i in range(value.ndim)]
        held[name].CopyFrom(numpy_helper.from_array(value * factors.reshape(shape), name))

    for layer, reader, axis in (("conv1", "conv2/depthwise", 0), ("conv2/depthwise", "conv2/pointwise", 1)):
        count = held[f"{layer}/weight"].dims[0]
        factors = np.exp(rng.uniform(-2, 2, count)).astype(np.float32)
        scale(f"{layer}/weight", 0, factors)
        scale(f"{layer}/bias", 0, factors)
        scale(f"{reader}/weight", axis, 1 / factors)
    return proto


def feed_forward(decomposed: bool = False) -> onnx.ModelProto:
    """Return the half of a transformer's block that has a LayerNormalization with two outlier channels.

    Args:
        decomposed: Whether the affine step of the normalisation is a Mul and an Add.
    """
    rng = np.random.default_rng(8)

    def draw(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    gamma = rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)
    gamma[[*OUTLIERS]] *= 60
    weights = {"gamma": gamma, "beta": draw(WIDTH), "up": draw(WIDTH, HIDDEN), "upb": draw(HIDDEN)}
    weights |= {"down": draw(HIDDEN, WIDTH), "downb": draw(WIDTH)}
    weights["up"][[*OUTLIERS]] /= 60
    ones = {"one": np.ones(WIDTH, np.float32)}
    norm = [helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["n"], name="norm")]
    if decomposed:
        weights |= ones
        norm = [
            helper.make_node("LayerNormalization", ["x", "one"], ["plain"], name="norm"),
            helper.make_node("Mul", ["plain", "gamma"], ["scaled"], name="norm/scale"),
            helper.make_node("Add", ["scaled", "beta"], ["n"], name="norm/shift"),
        ]
    nodes = [
        *norm,
        helper.make_node("MatMul", ["n", "up"], ["u"], name="up"),
        helper.make_node("Add", ["u", "upb"], ["ub"], name="up/bias"),
        helper.make_node("Relu", ["ub"], ["a"], name="relu"),
        helper.make_node("MatMul", ["a", "down"], ["d"], name="down"),
        helper.make_node("Add", ["d", "downb"], ["y"], name="down/bias"),
    ]
    return model(nodes, {"x": [1, 6, WIDTH]}, ["y"], weights)
