# SPDX-License-Identifier: Apache-2.0
"""Models of one bilinear resize between convolutions, and cases on both sides of its constraints."""

from collections.abc import Callable, Sequence

import onnx

from tests.arm_ext.ethosu.ops.limit_case import EARLIER, Build, LimitCase
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, weights

Body = Callable[[OneOperator, str], str]


def resized(
    shape: Sequence[int],
    size: Sequence[int],
    mode: str,
    *,
    zero: int = ZERO,
    y: tuple[float, int] | None = None,
    between: Body | None = None,
) -> onnx.ModelProto:
    """A resize of [N, C, H, W], quantised as `y` or like its data.

    Args:
        shape: Shape of the data.
        size: Rows and columns of the result.
        mode: ONNX's coordinate transformation mode.
        zero: The data's zero point.
        y: Scale and zero point of the result.
        between: What follows the resize, before a convolution.
    """
    one, x = OneOperator(), (3 * SCALE, zero)
    image = one.node("Conv", one.data(*shape), one.weight(weights((shape[1], shape[1], 1, 1))))
    image = again(one, image, *x)
    sizes = one.constant([*shape[:2], *size], "int64")
    way = {"mode": "linear", "coordinate_transformation_mode": mode}
    value = again(one, one.node("Resize", image, "", "", sizes, **way), *(y or x))
    depth = shape[1]
    if between is not None:
        value, depth = again(one, between(one, value), *(y or x)), depth + 5
    value = one.node("Conv", value, one.weight(weights((5, depth, 3, 3))), pads=[1] * 4)
    return one.model(one.quantized(value, 2.0))


def again(one: OneOperator, real: str, scale: float, zero: int) -> str:
    """Add QuantizeLinear and DequantizeLinear."""
    return one.dequantized(one.quantized(real, scale, zero), scale, zero, "int8")


def _between(shape: Sequence[int], size: Sequence[int], mode: str = "asymmetric") -> Build:
    return lambda: resized(shape, size, mode)


RESIZE_CASES: tuple[LimitCase, ...] = (
    LimitCase(
        "its image or result has too many rows or columns", _between((1, 1, 1, 16383), (2, 16383)),
        _between((1, 1, 1, 16384), (2, 16384)),
    ),
    LimitCase(
        "its resize factor is too small", _between((1, 3, 31, 15), (2, 1), "half_pixel"),
        _between((1, 3, 32, 15), (2, 1), "half_pixel"), ("u85",),
    ),
    LimitCase(
        "its resize factor is too large", _between((1, 1, 2, 3), (512, 3)), _between((1, 1, 2, 3), (514, 3)),
        ("u85",),
    ),
    LimitCase(
        "it interpolates by factors that are not whole", _between((1, 3, 4, 6), (8, 18)),
        _between((1, 3, 4, 6), (8, 15)), EARLIER,
    ),
    LimitCase(
        "the weight of a pixel does not fit in 8 bits", _between((1, 3, 2, 3), (28, 27)),
        _between((1, 3, 2, 3), (32, 24)), EARLIER,
    ),
)  # fmt: skip
"""Cases in the order of `CONSTRAINTS`."""


def decoder() -> onnx.ModelProto:
    """Two downsampling and two upsampling steps with skip connections, as in U-Net and the necks of detectors."""
    one, x = OneOperator(), (3 * SCALE, ZERO)

    def convolved(value: str, before: int, after: int, stride: int = 1) -> str:
        w = one.weight(weights((after, before, 3, 3)))
        real = one.node("Conv", value, w, pads=[1] * 4, strides=[stride] * 2)
        return again(one, one.node("Relu", real), *x)

    def grown(value: str, side: str, depth: int, size: int) -> str:
        sizes = one.constant([1, depth, size, size], "int64")
        way = {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}
        up = again(one, one.node("Resize", value, "", "", sizes, **way), *x)
        return again(one, one.node("Concat", up, side, axis=1), *x)

    fine = convolved(one.data(1, 3, 28, 28), 3, 8)
    middle = convolved(fine, 8, 16, 2)
    coarse = convolved(middle, 16, 24, 2)
    middle = convolved(grown(coarse, middle, 24, 14), 40, 16)
    fine = convolved(grown(middle, fine, 16, 28), 24, 5)
    return one.model(one.quantized(fine, *x))
