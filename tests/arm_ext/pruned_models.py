# SPDX-License-Identifier: Apache-2.0
"""The digits model with filters of zeros, as pruning leaves it."""

from typing import Literal

import numpy as np
import onnx
from onnx import numpy_helper

from arm_ext.api import digits

CONVOLUTIONS = {"conv1": 16, "conv2/depthwise": 16, "conv2/pointwise": 32, "conv3": 64}


def pruned_digits(
    form: Literal["fp32", "int8"], share: float, *, biases: bool = True
) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """Return the model with a share of each convolution's filters, and possibly biases, set to 0, and their indices."""
    model = onnx.load(digits.model_path(form))
    rng = np.random.default_rng(0)
    dead = {
        name: tuple(sorted(int(c) for c in rng.permutation(count)[: int(share * count)]))
        for name, count in CONVOLUTIONS.items()
    }
    kinds = ("weight", "bias") if biases else ("weight",)
    names = {f"{layer}/{kind}{end}": layer for layer in dead for kind in kinds for end in ("", "_quantized")}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            values = numpy_helper.to_array(tensor).copy()
            values[list(dead[names[tensor.name]])] = 0
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model, dead
