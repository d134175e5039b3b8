# SPDX-License-Identifier: Apache-2.0
"""Operators over NCHW images, emitted as TOSA's NHWC operators between transpositions."""

import math
from collections.abc import Callable

import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator, channels_last
from arm_ext.ethosu.tosa.common import reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, Value


def emitted(emitter: Callable[..., Value], graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """Emit an operator, with its images transposed to NHWC and back if they are NCHW."""
    last = channels_last(operator)
    if last is operator:
        return emitter(graph, operator, *data)
    images = (_swapped(graph, image, (*image.shape[:1], *image.shape[2:], image.shape[1])) for image in data)
    return _swapped(graph, emitter(graph, last, *images), operator.output.shape, to_front=True)


def _swapped(graph: TosaGraph, image: Value, shape: tuple[int, ...], *, to_front: bool = False) -> Value:
    """An image [N, C, ...] as [N, ..., C], or the other way round: a transposition of three axes."""
    batch, channels = image.shape[0], image.shape[-1] if to_front else image.shape[1]
    pixels = math.prod(image.shape) // (batch * channels)
    before = (batch, pixels, channels) if to_front else (batch, channels, pixels)
    rows = reshaped(graph, image, before)
    turned = (batch, before[2], before[1])
    return reshaped(graph, graph.add(ts.Op.TRANSPOSE, [rows], turned, image.dtype, [0, 2, 1]), shape)
