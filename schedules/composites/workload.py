# SPDX-License-Identifier: Apache-2.0
"""`Workload`: a frozen, hashable description of a composite Relax function, for which a kernel is to be built."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

SPARSE_SHARE = 0.5
"""Largest share of nonzero weights for which kernels may skip zeros. Weights without pruning have more."""


@dataclass(frozen=True)
class Operand:
    """One tensor that a composite reads.

    Attributes:
        shape: Shape of the tensor.
        dtype: Dtype of the tensor, before the cast if a cast is part of the composite.
        kind: "input" for a parameter of the composite, "constant" for a tensor in its body.
        index: Position among the composite's parameters, or among its constants in the order that they are read.
        axes: Axes of the permutation that is part of the composite; empty if there is none.
    """

    shape: tuple[int, ...]
    dtype: str
    kind: Literal["input", "constant"]
    index: int
    axes: tuple[int, ...] = ()

    @property
    def seen(self) -> tuple[int, ...]:
        """Shape of the operand after the permutation."""
        return tuple(self.shape[axis] for axis in self.axes) if self.axes else self.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride in elements of each axis, in the order after the permutation."""
        own = tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        return tuple(own[axis] for axis in self.axes) if self.axes else own


@dataclass(frozen=True)
class Step:
    """One epilogue step of a workload.

    Attributes:
        name: Name of the `EpilogueStep`.
        operand: The step's second operand; None if it has none.
        bounds: Lower and upper bound of a clip; None for other steps.
        parameters: Parameters of a numerics' routine, or an operator's float attributes, sorted by name, such as
            ("zero_point", -128).
    """

    name: str
    operand: Operand | None = None
    bounds: tuple[float, float] | None = None
    parameters: tuple[tuple[str, int | float | str], ...] = ()

    def parameter(self, name: str) -> int | float | str:
        """Return the value of a parameter."""
        return dict(self.parameters)[name]


@dataclass(frozen=True)
class OperandPadding:
    """A border around the anchor's operand 0.

    Attributes:
        widths: Numbers of border elements (before, after) of each axis.
        value: Value of the border.
    """

    widths: tuple[tuple[int, int], ...]
    value: float

    @classmethod
    def spatial(cls, padding: Sequence[int], value: float) -> "OperandPadding":
        """Return the padding of data [N, H, W, C] for a convolution's padding (top, left, bottom, right)."""
        top, left, bottom, right = padding
        return cls(((0, 0), (top, bottom), (left, right), (0, 0)), value)

    def padded(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the padded tensor."""
        return tuple(size + sum(width) for size, width in zip(shape, self.widths, strict=True))


@dataclass(frozen=True)
class Magnitude:
    """Accumulator bounds of an integer product, proven from its weights.

    Attributes:
        accumulator: Exponent p with |acc| < 2**p, offset included.
        scaled: Exponent p with |acc * multiplier| < 2**p, in units of the output.
        weight: Maximum |w|; 128, the bound of int8, if unknown.
        span: Maximum difference of two weights of a column; 255, the bound of int8, if unknown.
        fused: Whether the fused requantisation is exact for most columns, so that code for both forms is faster.
    """

    accumulator: int
    scaled: int
    weight: int = 128
    span: int = 255
    fused: bool = False


@dataclass(frozen=True)
class Workload:
    """A composite without the values of its constants; kernels are selected and built for workloads.

    Attributes:
        composite: Name of its `CompositeSpec`.
        operands: The anchor's operands.
        attributes: The anchor's attributes, sorted by name, values as text.
        epilogue: The epilogue steps, in order.
        output_shape: Shape of the result.
        output_dtype: Dtype of the result.
        pad: Padding of operand 0 that is part of the composite; None without padding.
        magnitude: Accumulator bounds of an integer composite with constant weights; else None.
        affine: `Affine.shift` and `Affine.lift` of the affine form of a function of 8-bit values and a constant (see
            `schedules.kernels.elementwise.affine_forms`); None if there is none.
        nonzeros: Number of nonzero weights of a float32 product with constant weights, if their share is at most
            `SPARSE_SHARE`; else None.
    """

    composite: str
    operands: tuple[Operand, ...]
    attributes: tuple[tuple[str, str], ...]
    epilogue: tuple[Step, ...]
    output_shape: tuple[int, ...]
    output_dtype: str
    pad: OperandPadding | None = None
    magnitude: Magnitude | None = None
    affine: tuple[int, int] | None = None
    nonzeros: int | None = None

    def step(self, name: str) -> Step | None:
        """Return the epilogue step with this name; None if there is no such step."""
        return next((step for step in self.epilogue if step.name == name), None)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The composite's parameters in order, each once even if several operands refer to it."""
        read = (*self.operands, *(step.operand for step in self.epilogue if step.operand))
        by_index = {operand.index: operand for operand in read if operand.kind == "input"}
        return tuple(by_index[index] for index in sorted(by_index))


@dataclass(frozen=True)
class Composite:
    """A workload together with the values of its constants, in the order of `Operand.index`."""

    workload: Workload
    constants: tuple[np.ndarray[Any, Any], ...]
