# SPDX-License-Identifier: Apache-2.0
"""Integer convolutions and linear layers as workloads, with data that reaches every rule of the definition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.board import Board
from schedules.composites.workload import Operand, OperandPadding, Step, Workload
from schedules.kernels.common.contract import Array, Kernel
from schedules.kernels.epilogues.accumulator_bounds import magnitude
from schedules.numerics.qdq import requantize
from schedules.numerics.tosa import requantize as tosa_requantize
from schedules.numerics.tosa import scales_of
from tests.schedules.programs import BASELINE, model_so

I8MM = {**BASELINE, "mattr": ["+dotprod", "+i8mm"]}


@dataclass(frozen=True)
class Quant:
    """Quantisation of output and data.

    Attributes:
        x: Dtype of the data.
        y: Dtype of the output.
        zero_point: Zero point of the output.
        border: Value of padding, the data's zero point.
        bounds: Least and greatest output, where a clamp was absorbed.
        scale: Scale of the multipliers; multiples of powers of two make ties.
        numerics: "qdq" or "tosa".
        nine_bits: Whether the weights are uint8 minus zero points.
    """

    x: str = "int8"
    y: str = "int8"
    zero_point: int = -3
    border: int = 5
    bounds: tuple[int, int] | None = None
    scale: float = 1.0
    numerics: str = "qdq"
    nine_bits: bool = False


SIGNED = Quant()
# What a model has behind relu6: uint8, the zero point at its end, a clamp.
UNSIGNED = Quant("uint8", "uint8", zero_point=0, border=131, bounds=(0, 250))
MIXED = Quant("uint8", "int8", zero_point=-127, border=255, bounds=(-100, 99))


@dataclass(frozen=True)
class Case:
    """A workload with its data and what it gives, from the definition."""

    workload: Workload
    inputs: tuple[Array, ...]
    constants: tuple[Array, ...]
    expected: Array

    def arguments(self, kernel: Kernel, params: Any) -> list[Array]:
        """What the kernel's function takes before its output."""
        return [*self.inputs, *kernel.pack(self.workload, params, self.constants)]

    def fused(self) -> "Case":
        """The same for kernels with code for the fused requantisation, too, as if most columns had it."""
        magnitude = self.workload.magnitude
        assert magnitude is not None
        return replace(self, workload=replace(self.workload, magnitude=replace(magnitude, fused=True)))


def conv(
    data: tuple[int, int, int, int],
    outputs: int,
    kernel: tuple[int, int],
    *,
    strides: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    quant: Quant = SIGNED,
) -> Case:
    """A convolution of [N, H, W, C] by [O, H, W, C / groups]; `pads` are top, left, bottom, right."""
    rng = np.random.default_rng(3)
    x = _data(rng, data, quant.x)
    w = weights(rng, (outputs, *kernel, data[3] // groups), 0, nine_bits=quant.nine_bits)
    pad = OperandPadding.spatial(pads, quant.border) if any(pads) else None
    wide = np.pad(x, pad.widths, constant_values=quant.border) if pad else x
    acc = convolution_sums(wide.astype(np.int64), w.astype(np.int64), strides, dilation, groups)
    attributes = {
        "strides": str(list(strides)),
        "padding": "[0, 0, 0, 0]",
        "dilation": str(list(dilation)),
        "groups": str(groups),
        "data_layout": "NHWC",
        "kernel_layout": "OHWI",
        "out_layout": "NHWC",
    }
    return _case("arm.conv2d_s8", (x, w), 0, acc, (1, 1, 1, outputs), quant, pad, attributes)


def linear(rows: Sequence[int], depth: int, columns: int, *, quant: Quant = SIGNED) -> Case:
    """A linear layer of [*rows, depth] by [depth, columns]."""
    rng = np.random.default_rng(3)
    x = _data(rng, (*rows, depth), quant.x)
    w = weights(rng, (depth, columns), 1, nine_bits=quant.nine_bits)
    acc = x.astype(np.int64) @ w.astype(np.int64)
    return _case("arm.linear_s8", (x, w), 1, acc, (columns,), quant, None, {})


def check(
    kernel: Kernel,
    cases: Sequence[tuple[Case, Any]],
    target: dict[str, Any],
    board: Board,
    folder: Path,
) -> None:
    """Runs the cases, each with its parameters, in one model.so and compares every value."""
    calls = [
        (
            kernel.build(case.workload, params),
            case.arguments(kernel, params),
            case.workload.output_shape,
            case.workload.output_dtype,
        )
        for case, params in cases
    ]
    so = model_so(folder / "model.so", calls, target)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for (case, params), actual in zip(cases, outputs, strict=True):
        np.testing.assert_array_equal(actual, case.expected, err_msg=f"{params} {case.workload}")


def _data(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    x.flat[:: max(1, x.size // 5)] = info.min
    return x


def weights(
    rng: np.random.Generator, shape: Sequence[int], column_axis: int, *, nine_bits: bool = False
) -> Array:
    """Return random int8 weights, or uint8 minus a zero point per column, over the whole range."""
    if nine_bits:
        per_column = [-1 if axis == column_axis else 1 for axis in range(len(shape))]
        zero_points = np.linspace(0, 255, shape[column_axis]).astype(np.int64).reshape(per_column)
        return (rng.choice([0, 1, 77, 254, 255], shape) - zero_points).astype(np.int16)
    w = rng.integers(-127, 128, shape).astype(np.int8)
    w.flat[:: max(1, w.size // 5)] = -128
    return w


def convolution_sums(
    x: Array, w: Array, strides: tuple[int, int], dilation: tuple[int, int], groups: int
) -> Array:
    """Return the int64 sums of a convolution of [N, H, W, C] by [O, H, W, C / groups]."""
    outputs, height, width, depth = w.shape
    rows = (x.shape[1] - (height - 1) * dilation[0] - 1) // strides[0] + 1
    columns = (x.shape[2] - (width - 1) * dilation[1] - 1) // strides[1] + 1
    acc = np.zeros((x.shape[0], rows, columns, outputs), np.int64)
    for group, own in enumerate(np.array_split(np.arange(outputs), groups)):
        part = x[..., group * depth : (group + 1) * depth]
        for i, j in np.ndindex(height, width):
            top, left = i * dilation[0], j * dilation[1]
            seen = part[:, top:, left:][:, :: strides[0], :: strides[1]][:, :rows, :columns]
            acc[..., own] += seen @ w[own, i, j].T
    return acc


def _case(
    composite: str,
    factors: tuple[Array, Array],
    column_axis: int,
    acc: Array,
    per_column: tuple[int, ...],
    quant: Quant,
    pad: OperandPadding | None,
    attributes: dict[str, str],
) -> Case:
    x, w = factors
    rng = np.random.default_rng(4)
    offset = rng.integers(-9000, 9001, per_column).astype(np.int32)
    # Outputs over some four times their range; every third multiplier a power of two, whose products end in ties.
    spread = float(np.abs(acc).max(initial=1))
    m = (quant.scale * rng.uniform(100, 500, per_column) / spread).astype(np.float32)
    m[..., ::3] = 2.0 ** np.floor(np.log2(m[..., ::3]))
    step, multipliers, expected = requantized((acc + offset).astype(np.int32), m, 2, quant)
    steps = (Step("offset", Operand(offset.shape, "int32", "constant", 1)), step)
    workload = Workload(
        composite,
        (Operand(x.shape, quant.x, "input", 0), Operand(w.shape, str(w.dtype), "constant", 0)),
        tuple(sorted(attributes.items())),
        steps,
        expected.shape,
        quant.y,
        pad,
        magnitude(w, column_axis, quant.x, offset, m),
    )
    return Case(workload, (x,), (w, offset, multipliers), expected)


def requantized(acc: Array, m: Array, index: int, quant: Quant) -> tuple[Step, Array, Array]:
    """The step that requantises, its constant, of that index, for real multipliers m, and what it gives."""
    low, high = (int(end) for end in quant.bounds or (np.iinfo(quant.y).min, np.iinfo(quant.y).max))
    parameters: dict[str, Any] = {
        "high": high,
        "low": low,
        "output_dtype": quant.y,
        "zero_point": quant.zero_point,
    }
    if quant.numerics == "qdq":
        expected = requantize(acc, m, quant.zero_point, quant.y, (low, high))
    else:
        m, shift = scales_of(m.astype(np.float64))
        parameters |= {"average": 0, "shift": shift}
        expected = tosa_requantize(acc, m, shift, quant.zero_point, low, high).astype(quant.y)
    operand = Operand(m.shape, str(m.dtype), "constant", index)
    return Step("requantize", operand, None, tuple(sorted(parameters.items()))), m, expected


# Every form of requantisation with every kind of data and output.
WIDE = Quant(zero_point=7, scale=500.0)
QUANTS = (SIGNED, UNSIGNED, WIDE, MIXED)
# The same by RESCALE: shifts above and below 32, and one that leaves few of an accumulator's bits.
RESCALED = tuple(replace(quant, numerics="tosa") for quant in (*QUANTS, replace(SIGNED, scale=2.0**-5)))

LINEAR = tuple(
    linear(rows, depth, columns, quant=QUANTS[index % len(QUANTS)])
    for index, (rows, depth, columns) in enumerate(
        [
            ((1,), 1, 1),
            ((7,), 8, 9),
            ((8,), 31, 7),
            ((9,), 7, 31),
            ((31,), 9, 8),
            ((13,), 65, 17),
            ((1,), 48, 33),
            ((2,), 200, 40),
            ((6,), 5, 9),
            ((2, 3, 5), 29, 3),
            ((4,), 44, 24),
        ]
    )
)

CONVOLUTIONS = (
    conv((1, 9, 7, 1), 3, (3, 3), pads=(1, 1, 1, 1)),
    conv((2, 9, 8, 3), 17, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), quant=UNSIGNED),
    conv((1, 8, 9, 5), 5, (1, 1), strides=(2, 1), quant=MIXED),
    conv((1, 11, 9, 17), 9, (3, 2), dilation=(2, 3), pads=(2, 1, 0, 1), quant=WIDE),
    conv((2, 7, 7, 16), 24, (3, 3), groups=2, pads=(1, 1, 1, 1), quant=MIXED),
    conv((1, 5, 8, 6), 15, (2, 2), groups=3, strides=(1, 2)),
    conv((1, 7, 31, 8), 8, (7, 5), pads=(3, 2, 3, 2), quant=UNSIGNED),
    conv((1, 4, 3, 5), 31, (4, 3)),
    # Depthwise with a multiplier, dilated, of few channels.
    conv((1, 6, 5, 9), 18, (3, 3), groups=9, pads=(1, 1, 1, 1)),
    conv((1, 9, 9, 8), 8, (3, 3), groups=8, dilation=(2, 2), pads=(2, 2, 2, 2), quant=MIXED),
    conv((2, 5, 8, 3), 3, (3, 3), groups=3, quant=WIDE),
)


# The shapes that kernels are compared on; made where they are needed, since the largest takes a second.
SHAPES: dict[str, Callable[[], Case]] = {
    "gemm 256": lambda: linear((256,), 256, 256),
    "gemm 128 x 1024 x 256": lambda: linear((128,), 1024, 256),
    "conv 3 x 3": lambda: conv((1, 14, 14, 128), 256, (3, 3), pads=(1, 1, 1, 1)),
    "conv 1 x 1, 14": lambda: conv((1, 14, 14, 96), 576, (1, 1)),
    "conv 1 x 1, 56": lambda: conv((1, 56, 56, 64), 256, (1, 1)),
    "first layer": lambda: conv((1, 224, 224, 3), 32, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "classifier": lambda: linear((1,), 1280, 1000),
    "depthwise": lambda: conv((1, 112, 112, 96), 96, (3, 3), groups=96, pads=(1, 1, 1, 1)),
}

# int16 data in two planes: with zero points, a clamp, results of either width, and borders that are not 0.
SYMMETRIC16 = Quant("int16", "int16", zero_point=0, border=0, scale=256.0)
SIXTEEN_BITS_SHIFTED = Quant(
    "int16", "int16", zero_point=-300, border=1234, bounds=(-300, 32000), scale=256.0
)
NARROWED16 = Quant("int16", "int8", zero_point=5, border=-32768)
WIDENED16 = Quant("int8", "int16", zero_point=77, border=-7, scale=256.0)
SIXTEEN_BITS = (
    *(
        linear(rows, depth, columns, quant=quant)
        for (rows, depth, columns), quant in [
            (((1,), 1, 1), SYMMETRIC16),
            (((7,), 8, 9), SIXTEEN_BITS_SHIFTED),
            (((8,), 31, 7), NARROWED16),
            (((9,), 7, 31), SYMMETRIC16),
            (((31,), 9, 8), SIXTEEN_BITS_SHIFTED),
            (((13,), 65, 17), WIDENED16),
            (((1,), 200, 40), SYMMETRIC16),
            (((2, 3, 5), 29, 3), NARROWED16),
        ]
    ),
    conv((1, 9, 7, 1), 3, (3, 3), pads=(1, 1, 1, 1), quant=SIXTEEN_BITS_SHIFTED),
    conv((2, 9, 8, 3), 17, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), quant=SYMMETRIC16),
    conv((1, 8, 9, 5), 5, (1, 1), strides=(2, 1), quant=SIXTEEN_BITS_SHIFTED),
    conv((1, 11, 9, 17), 9, (3, 2), dilation=(2, 3), pads=(2, 1, 0, 1), quant=NARROWED16),
    conv((2, 7, 7, 16), 24, (3, 3), groups=2, pads=(1, 1, 1, 1), quant=SIXTEEN_BITS_SHIFTED),
    conv((1, 4, 3, 5), 31, (4, 3), quant=WIDENED16),
    conv((1, 6, 5, 9), 24, (3, 3), groups=3, pads=(1, 1, 1, 1), quant=SYMMETRIC16),
)
