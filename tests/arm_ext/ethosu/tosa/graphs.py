# SPDX-License-Identifier: Apache-2.0
"""Small TOSA graphs, and their outputs by the TOSA reference model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import tosa_serializer as ts
from numpy.typing import NDArray

from arm_ext.ethosu.vela.compiler import Io

Array = NDArray[np.generic]

I8, I16, I32, I48, BOOL = ts.DType.INT8, ts.DType.INT16, ts.DType.INT32, ts.DType.INT48, ts.DType.BOOL
_NUMPY = {I8: "int8", I16: "int16", I32: "int32", BOOL: "bool"}
SINGLE, DOUBLE = ts.RoundingMode.SINGLE_ROUND, ts.RoundingMode.DOUBLE_ROUND


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: ts.DType
    made: object = None


@dataclass
class Graph:
    """Builds a graph of one block; its methods add operators and return their results."""

    seed: int = 0
    inputs: list[Io] = field(default_factory=list)
    outputs: list[Io] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self._count = 0
        self._serializer = ts.TosaSerializer(
            "", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False
        )

    def _name(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def input(self, shape: Sequence[int], dtype: ts.DType = I8) -> Tensor:
        made = self._serializer.addPlaceholder(list(shape), dtype)
        self.inputs.append(Io(made.name, _NUMPY[dtype], tuple(shape)))
        return Tensor(made.name, tuple(shape), dtype, made)

    def const(self, values: object, dtype: ts.DType) -> Tensor:
        array = np.asarray(values)
        name = self._serializer.addConst(
            list(array.shape), dtype, array.astype(np.int64), name=self._name()
        ).name
        return Tensor(name, array.shape, dtype)

    def shape(self, values: Sequence[int]) -> Tensor:
        data = np.array(values, np.int64)
        name = self._serializer.addConst([len(data)], ts.DType.SHAPE, data, name=self._name()).name
        return Tensor(name, (len(data),), ts.DType.SHAPE)

    def op(
        self, kind: str, inputs: Sequence[Tensor], shape: Sequence[int], dtype: ts.DType, *attributes: object
    ) -> Tensor:
        operator = getattr(ts.Op, kind)
        attribute = ts.TosaSerializerAttribute()
        attribute.setAttribute(operator, *attributes)
        out = self._serializer.addIntermediate(list(shape), dtype)
        self._serializer.addOperator(operator, [t.name for t in inputs], [out.name], attribute)
        return Tensor(out.name, tuple(shape), dtype, out)

    def output(self, tensor: Tensor) -> None:
        self._serializer.addOutputTensor(tensor.made)
        self.outputs.append(Io(tensor.name, _NUMPY[tensor.dtype], tensor.shape))

    def serialize(self) -> bytes:
        return bytes(self._serializer.serialize())


# Operators with the further operands that TOSA requires besides the tensors.


def rescale(
    graph: Graph,
    value: Tensor,
    dtype: ts.DType,
    multiplier: Sequence[int] | int,
    shift: Sequence[int] | int,
    zero_points: tuple[int, int] = (0, 0),
    rounding: ts.RoundingMode = SINGLE,
) -> Tensor:
    multipliers, shifts = np.atleast_1d(multiplier), np.atleast_1d(shift)
    wide = value.dtype != I48
    operands = [
        graph.const(multipliers, I32 if wide else I16),
        graph.const(shifts, I8),
        graph.const([zero_points[0]], value.dtype),
        graph.const([zero_points[1]], dtype),
    ]
    per_channel = len(multipliers) > 1
    return graph.op(
        "RESCALE", [value, *operands], value.shape, dtype, wide, rounding, per_channel, False, False
    )


def conv(
    graph: Graph,
    value: Tensor,
    depth: int,
    kernel: tuple[int, int],
    *,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    zero_point: int = 0,
    depthwise: bool = False,
    density: float = 1.0,
    two_of_four: bool = False,
) -> Tensor:
    """A convolution with random weights; pad is top, bottom, left, right; depth of a depthwise one is its multiplier.

    `two_of_four` makes two of every four input channels' weights zero, which U85 stores as sparse.
    """
    _, height, width, channels = value.shape
    rows = (height - 1 + pad[0] + pad[1] - (kernel[0] - 1) * dilation[0]) // stride[0] + 1
    columns = (width - 1 + pad[2] + pad[3] - (kernel[1] - 1) * dilation[1]) // stride[1] + 1
    out = channels * depth if depthwise else depth
    shape = (*kernel, channels, depth) if depthwise else (depth, *kernel, channels)
    weights = graph.rng.integers(-127, 128, shape) * (graph.rng.random(shape) < density)
    if two_of_four:
        weights = weights * (np.arange(channels) % 4 >= 2)
    total = I48 if value.dtype == I16 else I32
    operands = [
        graph.const(weights, I8),
        graph.const(graph.rng.integers(-3000, 3000, out), total),
        graph.const([zero_point], value.dtype),
        graph.const([0], I8),
    ]
    kind = "DEPTHWISE_CONV2D" if depthwise else "CONV2D"
    result = (1, rows, columns, out)
    return graph.op(
        kind, [value, *operands], result, total, list(pad), list(stride), list(dilation), False, total
    )


def requantized(graph: Graph, value: Tensor, dtype: ts.DType, factor: float, zero_point: int = 0) -> Tensor:
    """Per-channel rescaling by about `factor`."""
    channels = value.shape[-1]
    bits = 15 if value.dtype == I48 else 31
    factors = factor * graph.rng.uniform(0.5, 1.5, channels)
    exponents = np.frexp(factors)[1]
    multipliers = np.round(np.ldexp(factors, bits - exponents)).astype(np.int64).clip(0, (1 << bits) - 1)
    rounding = SINGLE if value.dtype == I48 else DOUBLE
    return rescale(graph, value, dtype, multipliers, bits - exponents, (0, zero_point), rounding)
