# SPDX-License-Identifier: Apache-2.0
"""One table of calls that are linear in their weights, for every rule that folds something into those."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr

from tests.relay_passes.graphs import Net, tensor


@dataclass(frozen=True)
class AnchorCase:
    """An anchor with 6 input channels (8 if depthwise) and 8 output channels.

    Attributes:
        operator: Without "relax.".
        data: Shape of operand 0.
        weight: Shape of operand 1.
        inputs: Shape of one number an input channel, that broadcasts with the data.
        outputs: Shape of one number an output channel, that broadcasts with the result.
        attrs: Attributes of the call.
    """

    operator: str
    data: tuple[int, ...]
    weight: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> relax.Var:
        return tensor("x", *self.data)

    def call(self, data: Expr, weight: Expr, **attrs: Any) -> Expr:
        make = reduce(getattr, self.operator.split("."), relax.op)
        return make(data, weight, **{**self.attrs, **attrs})

    def emit(self, net: Net, data: Expr, **attrs: Any) -> relax.Var:
        """The call on random weights, named "anchor"."""
        return net.emit("anchor", self.call(data, net.const(*self.weight), **attrs))

    @property
    def tolerance(self) -> float:
        """How far two orders of summing may lie apart, relative to the largest result.

        A sum has at most as many terms as one output has weights, all of order 1; folding rounds a few times more.
        """
        return (np.prod(self.weight) / 8 + 8) * float(np.finfo(np.float32).eps)


_FLAT, _MAP = (6, 1), (6, 1, 1)
CONVOLUTIONS: dict[str, AnchorCase] = {
    "conv1d": AnchorCase("nn.conv1d", (1, 6, 9), (8, 6, 3), _FLAT, (8, 1), {"padding": 1}),
    "conv2d": AnchorCase("nn.conv2d", (1, 6, 9, 7), (8, 6, 3, 3), _MAP, (8, 1, 1), {"padding": (1, 0, 2, 1)}),
    "conv2d, NHWC, OHWI": AnchorCase(
        "nn.conv2d",
        (1, 9, 7, 6),
        (8, 3, 3, 6),
        (6,),
        (8,),
        {"padding": (0, 1, 1, 2), "strides": 2, "data_layout": "NHWC", "kernel_layout": "OHWI"},
    ),
    "conv2d, NHWC, HWIO": AnchorCase(
        "nn.conv2d",
        (1, 9, 7, 6),
        (3, 3, 6, 8),
        (6,),
        (8,),
        {"padding": 2, "dilation": 2, "data_layout": "NHWC", "kernel_layout": "HWIO"},
    ),
    "conv2d, groups": AnchorCase(
        "nn.conv2d", (1, 6, 9, 7), (8, 3, 3, 3), _MAP, (8, 1, 1), {"padding": 1, "groups": 2}
    ),
    "conv2d, groups, HWIO": AnchorCase(
        "nn.conv2d",
        (1, 9, 7, 6),
        (3, 3, 3, 8),
        (6,),
        (8,),
        {"padding": 1, "groups": 2, "data_layout": "NHWC", "kernel_layout": "HWIO"},
    ),
    "depthwise": AnchorCase(
        "nn.conv2d", (1, 8, 9, 7), (8, 1, 3, 3), (8, 1, 1), (8, 1, 1), {"padding": 1, "groups": 8}
    ),
    "conv3d": AnchorCase(
        "nn.conv3d", (1, 6, 4, 5, 3), (8, 6, 1, 3, 1), (6, 1, 1, 1), (8, 1, 1, 1), {"padding": (0, 1, 0)}
    ),
}
TRANSPOSED: dict[str, AnchorCase] = {
    "conv1d_transpose": AnchorCase(
        "nn.conv1d_transpose", (1, 6, 5), (6, 8, 3), _FLAT, (8, 1), {"strides": 2}
    ),
    "conv2d_transpose": AnchorCase(
        "nn.conv2d_transpose", (1, 6, 5, 4), (6, 8, 3, 3), _MAP, (8, 1, 1), {"strides": 2, "padding": 1}
    ),
    "conv2d_transpose, groups": AnchorCase(
        "nn.conv2d_transpose", (1, 6, 5, 4), (6, 4, 3, 3), _MAP, (8, 1, 1), {"strides": 2, "groups": 2}
    ),
}
PRODUCTS: dict[str, AnchorCase] = {
    "matmul": AnchorCase("matmul", (7, 6), (6, 8), (6,), (8,)),
    "matmul, batches of data": AnchorCase("matmul", (2, 7, 6), (6, 8), (6,), (8,)),
    "matmul, a vector": AnchorCase("matmul", (6,), (6, 8), (6,), (8,)),
}
BATCHED = AnchorCase("matmul", (2, 7, 6), (2, 6, 8), (6,), (8,))
ANCHORS = {**CONVOLUTIONS, **TRANSPOSED, **PRODUCTS, "matmul, batches of weights": BATCHED}
