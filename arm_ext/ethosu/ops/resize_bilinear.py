# SPDX-License-Identifier: Apache-2.0
"""Bilinear resize, as the numerics `tosa` defines it: RESIZE, or convolutions, which Ethos-U55 and U65 require.

RESIZE on Ethos-U85 can scale its sums by a power of two in the same command; for any other scale the sums are written
out in 32 bits, which takes two to four times as long as the convolutions.

For a whole factor f, output f * i + k is a weighted sum of pixels i + start and i + start + 1, whose weights depend on
the phase k alone. So each phase is a depthwise convolution by 2 x 2 weights with the same sums as RESIZE. Column phases
are computed as adjacent channels, row phases as separate tensors, and a reshape interleaves them:

    [H, W, C]  →  edges repeated  →  [H + 2, W + 1, fx * C]  →  fy times [H, W, fx * C]  →  [H, fy * W, fx * C]
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import tosa_serializer as ts
from tvm.ir import Expr

from arm_ext.ethosu.ops.common.constraint import EARLIER, TOSA, Constraint, at_most
from arm_ext.ethosu.ops.common.contract import Operation, of_routine
from arm_ext.ethosu.ops.common.convolutions import operands
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.tosa.common import joined, rescale, reshaped, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from schedules.numerics.tosa import RescaleFactor, scale_of

MAX_WEIGHT = 127
"""Largest weight that fits in the int8 weights of a convolution."""

MAX_EXTENT = (1 << 14) - 1
"""Largest height or width of RESIZE's image and result."""


@dataclass(frozen=True)
class TosaResizeAxis:
    """Parameters of RESIZE along one axis, in units of 1 / n pixel.

    Attributes:
        n: Distance from one pixel to the next.
        d: Distance from one output to the next.
        offset: Position of the first output relative to the first pixel.
        border: Position of the last output relative to the last pixel.
    """

    n: int
    d: int
    offset: int
    border: int

    @property
    def factor(self) -> Fraction:
        """Upscaling factor: outputs per pixel."""
        return Fraction(self.n, self.d)

    @property
    def phases(self) -> "list[InterpolationPhase]":
        """The interpolation of each output of a pixel, for an integer factor."""
        found = (divmod(self.d * k + self.offset, self.n) for k in range(self.n // self.d))
        return [InterpolationPhase(start, (self.n - part, part)) for start, part in found]


@dataclass(frozen=True)
class InterpolationPhase:
    """The interpolation of the k-th output of every pixel.

    Attributes:
        start: The first of the two interpolated pixels, relative to the output's own pixel: 0 or -1.
        weights: The weights of the two pixels.
    """

    start: int
    weights: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class BilinearResize(Attributes):
    """Attributes of a bilinear resize.

    Attributes:
        rows: Parameters along the height.
        columns: Parameters along the width.
    """

    rows: TosaResizeAxis
    columns: TosaResizeAxis

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        """The upscaling factors of rows and columns."""
        return self.rows.factor, self.columns.factor

    @property
    def greatest_weight(self) -> int:
        """The largest weight of a pixel in a sum, for integer factors."""
        return math.prod(
            max(max(phase.weights) for phase in axis.phases) for axis in (self.rows, self.columns)
        )

    @property
    def convolves(self) -> bool:
        """Whether the resize can be computed by convolutions."""
        return _are_whole(self.factors) and self.greatest_weight <= MAX_WEIGHT


def _attributes(_: Sequence[Expr], attrs: Mapping[str, Any]) -> BilinearResize:
    rows, columns = (
        TosaResizeAxis(*(int(attrs[f"{axis}_{name}"]) for name in ("n", "d", "offset", "border")))
        for axis in "yx"
    )
    return BilinearResize(rows=rows, columns=columns, channels_first=str(attrs["layout"]) == "NCHW")


def _extent(operator: Operator[BilinearResize]) -> int:
    """Return the maximum height or width of the image and the result."""
    return max(dim for tensor in operator.tensors for dim in tensor.shape[1:3])


def _are_whole(factors: Sequence[Fraction]) -> bool:
    return all(factor.denominator == 1 for factor in factors)


_CONVOLVED = "the convolutions that stand for RESIZE there"

_CONSTRAINTS: tuple[Constraint[BilinearResize], ...] = (
    Constraint(
        "its image or result has too many rows or columns", f"at most {MAX_EXTENT}", _extent, at_most(MAX_EXTENT),
        "split it", TOSA,
    ),
    Constraint(
        "its resize factor is too small", "more than 1/16", lambda op: min(op.attributes.factors),
        lambda factor: factor > Fraction(1, 16), "resize in two steps", TOSA, ("u85",),
    ),
    Constraint(
        "its resize factor is too large", "at most 256", lambda op: max(op.attributes.factors),
        lambda factor: factor <= Fraction(256), "resize in two steps", TOSA, ("u85",),
    ),
    Constraint(
        "it interpolates by factors that are not whole", "whole factors", lambda op: op.attributes.factors,
        _are_whole, "resize by whole factors", _CONVOLVED, EARLIER,
    ),
    Constraint(
        "the weight of a pixel does not fit in 8 bits", f"at most {MAX_WEIGHT}",
        lambda op: op.attributes.greatest_weight, at_most(MAX_WEIGHT), "smaller factors, or other coordinates",
        _CONVOLVED, EARLIER,
    ),
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[BilinearResize], data: TosaTensor) -> TosaTensor:
    """Emit RESIZE and RESCALE, or convolutions where the accelerator lacks RESIZE or they are faster."""
    given, rows, columns = operator.attributes, operator.attributes.rows, operator.attributes.columns
    units = rows.n * columns.n
    scale, is_power = scale_of(1 / units), units & (units - 1) == 0
    if graph.family != "u85" or (not is_power and given.convolves):
        return _by_phases(graph, operator, data, scale)
    inputs = [
        data,
        graph.sizes([rows.n, rows.d, columns.n, columns.d]),
        graph.sizes([rows.offset, columns.offset]),
        graph.sizes([rows.border, columns.border]),
    ]
    total = graph.add(ts.Op.RESIZE, inputs, operator.output.shape, "int32", ts.ResizeMode.BILINEAR)
    return rescale(graph, total, scale, data.dtype)


def _by_phases(
    graph: TosaGraph, operator: Operator[BilinearResize], data: TosaTensor, scale: RescaleFactor
) -> TosaTensor:
    rows, columns = operator.attributes.rows.phases, operator.attributes.columns.phases
    images, height, width, channels = data.shape
    edged = _edged(graph, _edged(graph, data, 1, rows), 2, columns)
    beside = joined(graph, [_shifted(graph, edged, 2, columns, phase) for phase in columns], 3)
    results = []
    for phase in rows:
        own = _shifted(graph, beside, 1, rows, phase)
        total = _convolved(graph, own, phase, columns, channels)
        results.append(rescale(graph, total, scale, data.dtype))
    whole = (images, height * len(rows), width * len(columns), channels)
    grown = reshaped(graph, joined(graph, results, 2), whole)
    # With aligned corners, no output lies beyond the last pixel.
    return sliced(graph, grown, (0, 0, 0, 0), operator.output.shape)


def _edged(
    graph: TosaGraph, image: TosaTensor, axis: int, phases: Sequence[InterpolationPhase]
) -> TosaTensor:
    """Return the image with its last row or column repeated, and its first one if a phase starts before it."""
    last = [0] * len(image.shape)
    last[axis] = image.shape[axis] - 1
    edge = list(image.shape)
    edge[axis] = 1
    front = [sliced(graph, image, [0] * len(edge), edge)] * _front(phases)
    behind = sliced(graph, image, last, edge)
    return joined(graph, [*front, image, behind], axis)


def _front(phases: Sequence[InterpolationPhase]) -> int:
    return -min(phase.start for phase in phases)


def _shifted(
    graph: TosaGraph,
    edged: TosaTensor,
    axis: int,
    phases: Sequence[InterpolationPhase],
    phase: InterpolationPhase,
) -> TosaTensor:
    """Return the slice that the 2 x 2 windows of `phase` read; `edged` is an image with repeated edges."""
    start, size = [0] * len(edged.shape), list(edged.shape)
    start[axis] = phase.start + _front(phases)
    size[axis] -= _front(phases)
    return sliced(graph, edged, start, size)


def _convolved(
    graph: TosaGraph,
    image: TosaTensor,
    row: InterpolationPhase,
    columns: Sequence[InterpolationPhase],
    channels: int,
) -> TosaTensor:
    """Return the sums of one row phase and all column phases, which become adjacent channels."""
    weights = np.stack([np.outer(row.weights, column.weights) for column in columns], 2)
    weights = np.repeat(weights, channels, 2)[..., None].astype(np.int8)
    images, height, width, depth = image.shape
    inputs = operands(graph, image, weights, np.zeros(1), 0)
    shape, padding, ones = (images, height - 1, width - 1, depth), [0] * 4, [1] * 2
    kind, dtype = ts.Op.DEPTHWISE_CONV2D, ts.DType.INT32
    return graph.add(kind, inputs, shape, "int32", padding, ones, ones, False, dtype)


OPERATION: Operation[BilinearResize] = Operation(
    kinds=("resize",),
    patterns={"tosa.resize": of_routine("resize", _attributes)},
    constraints=_CONSTRAINTS,
    emit=emit,
)
