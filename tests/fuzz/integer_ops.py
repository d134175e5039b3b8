# SPDX-License-Identifier: Apache-2.0
"""Integer accumulators of the operators that sum products, in numpy and int64: nothing rounds, nothing overflows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]


def windows(x: Array, a: Attributes, kernel: tuple[int, int], fill: int = 0) -> Array:
    """Every window of images [n, c, h, w], padded with `fill`: [n, c, oh, ow, kh, kw]."""
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    (sh, sw), (dh, dw) = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    reach = (dh * (kernel[0] - 1) + 1, dw * (kernel[1] - 1) + 1)
    return sliding_window_view(padded, reach, (2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]


def conv(x: Array, w: Array, a: Attributes) -> Array:
    """Sums of [n, c, h, w] with [o, c / groups, kh, kw]: [n, o, oh, ow]; of lines likewise, without h."""
    if x.ndim == 3:
        start, end = a.get("pads", [0, 0])
        lifted = {name: [1, *a.get(name, [1])] for name in ("strides", "dilations")}
        lifted["pads"] = [0, start, 0, end]
        return conv(x[:, :, None], w[:, :, None], {**a, **lifted})[:, :, 0]
    groups = a.get("group", 1)
    parts = [
        np.einsum("nchwij,ocij->nohw", windows(part, a, w.shape[2:]), kernel)
        for part, kernel in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, 1)


def conv_transpose(x: Array, w: Array, a: Attributes) -> Array:
    """Sums of [n, c, h, w] with [c, o / groups, kh, kw]: each value adds its multiple of the kernel."""
    groups, (sh, sw) = a.get("group", 1), a.get("strides", [1, 1])
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    extra = a.get("output_padding", [0, 0])
    (n, _, h, width), (kh, kw) = x.shape, w.shape[2:]
    full = np.zeros(
        (n, w.shape[1] * groups, sh * (h - 1) + kh + extra[0], sw * (width - 1) + kw + extra[1]), x.dtype
    )
    for i in range(kh):
        for j in range(kw):
            parts = [
                np.einsum("nchw,co->nohw", part, kernel[:, :, i, j])
                for part, kernel in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True)
            ]
            full[:, :, i : i + sh * (h - 1) + 1 : sh, j : j + sw * (width - 1) + 1 : sw] += np.concatenate(
                parts, 1
            )
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


def window_sums(x: Array, a: Attributes) -> tuple[Array, Array]:
    """Sums of each window, and how many values each is the average of."""
    kernel = tuple(a["kernel_shape"])
    counted = np.ones(x.shape, np.int64)
    fill = 1 if a.get("count_include_pad", 0) else 0
    return windows(x, a, kernel).sum((4, 5)), windows(counted, a, kernel, fill).sum((4, 5))
