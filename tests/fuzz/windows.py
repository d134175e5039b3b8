# SPDX-License-Identifier: Apache-2.0
"""Steps of one ONNX node that goes over an image in windows."""

import math
from dataclasses import dataclass
from typing import Any

from tests.fuzz.builder import Builder, Value
from tests.fuzz.step import CHANNELS, filters


@dataclass(frozen=True)
class Window:
    """Geometry of a convolution or pooling."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]

    def attributes(self, *, dilated: bool = True) -> dict[str, Any]:
        found = {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "pads": list(self.pads),
            "dilations": list(self.dilations),
        }
        return found if dilated else {key: value for key, value in found.items() if key != "dilations"}

    def output(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        reach = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        padded = [n + self.pads[i] + self.pads[i + 2] for i, n in enumerate(spatial)]
        return tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, self.strides, strict=True))


def draw_window(b: Builder, spatial: tuple[int, ...], sizes: tuple[int, ...], *, dilate: bool) -> Window:
    """A window that fits, with pads below the kernel's size and often different at each side."""
    height, width = (b.pick([k for k in sizes if k <= n + 2]) for n in spatial)
    kernel = (height, width)
    pads = [0, 0, 0, 0]
    dilations = [1, 1]
    for i, (k, n) in enumerate(zip(kernel, spatial, strict=True)):
        same = b.flag()
        before, after = (k // 2, k // 2) if same else (b.pick(range(k)), b.pick(range(k)))
        if n + before + after < k:
            before, after = k - 1, k - 1
        pads[i], pads[i + 2] = before, after
        if dilate and k > 1 and n + before + after >= 2 * (k - 1) + 1:
            dilations[i] = b.pick([1, 2])
    strides = (b.pick([1, 2, 3]), b.pick([1, 2, 3]))
    return Window(kernel, strides, (dilations[0], dilations[1]), (pads[0], pads[1], pads[2], pads[3]))


def conv(b: Builder, x: Value) -> Value:
    n, c, *spatial = x.shape
    window = draw_window(b, tuple(spatial), (1, 3, 5), dilate=True)
    groups = b.pick([1, c] + [g for g in (2, 3, 4) if c % g == 0 and g < c])
    per_group = b.pick([1, 2]) if groups > 1 else b.pick(CHANNELS)
    out = groups * per_group
    w = filters(b, (out, c // groups, *window.kernel), c // groups * math.prod(window.kernel))
    bias = [b.uniform((out,))] if b.flag() else []
    shape = (n, out, *window.output(tuple(spatial)))
    return b.node("Conv", [x, w, *bias], shape, group=groups, **window.attributes())


def conv1d(b: Builder, x: Value) -> Value:
    n, c, length = x.shape
    window = draw_window(b, (1, length), (1, 3, 5), dilate=True)
    groups = b.pick([1, c])
    out = groups * b.pick([1, 2]) if groups > 1 else b.pick(CHANNELS)
    kernel = window.kernel[1:]
    w = filters(b, (out, c // groups, *kernel), c // groups * kernel[0])
    bias = [b.uniform((out,))] if b.flag() else []
    attributes = {
        "kernel_shape": list(kernel),
        "strides": list(window.strides[1:]),
        "pads": list(window.pads[1::2]),
        "dilations": list(window.dilations[1:]),
    }
    return b.node("Conv", [x, w, *bias], (n, out, window.output((1, length))[1]), group=groups, **attributes)


def depthwise(b: Builder, x: Value) -> Value:
    n, c, *spatial = x.shape
    window = draw_window(b, tuple(spatial), (3, 5), dilate=True)
    w = filters(b, (c, 1, *window.kernel), math.prod(window.kernel))
    shape = (n, c, *window.output(tuple(spatial)))
    return b.node(
        "Conv", [x, w, *([b.uniform((c,))] if b.flag() else [])], shape, group=c, **window.attributes()
    )


def conv_transpose(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    kernel, stride = (b.pick([1, 2, 3]), b.pick([2, 3])), b.pick([1, 2])
    pad = b.pick([0, 1]) if min(kernel) > 1 and min(h, w) > 2 else 0
    groups = b.pick([1, c])
    out = groups if groups > 1 else b.pick(CHANNELS)
    extra = b.pick([0, 1]) if stride > 1 else 0
    weight = filters(b, (c, out // groups, *kernel), c // groups * math.prod(kernel))
    bias = [b.uniform((out,))] if b.flag() else []
    shape = (n, out, *(stride * (d - 1) + extra + k - 2 * pad for d, k in zip((h, w), kernel, strict=True)))
    attributes: dict[str, Any] = {"strides": [stride] * 2, "pads": [pad] * 4, "kernel_shape": list(kernel)}
    return b.node(
        "ConvTranspose", [x, weight, *bias], shape, group=groups, output_padding=[extra] * 2, **attributes
    )


def max_pool(b: Builder, x: Value) -> Value:
    window = draw_window(b, x.shape[2:], (2, 3), dilate=False)
    return b.node("MaxPool", [x], (*x.shape[:2], *window.output(x.shape[2:])), **window.attributes())


def average_pool(b: Builder, x: Value) -> Value:
    window = draw_window(b, x.shape[2:], (2, 3), dilate=False)
    shape = (*x.shape[:2], *window.output(x.shape[2:]))
    counted = int(b.flag())
    return b.node("AveragePool", [x], shape, count_include_pad=counted, **window.attributes(dilated=False))
