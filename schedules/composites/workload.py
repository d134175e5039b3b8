# SPDX-License-Identifier: Apache-2.0
"""`Workload`: what a kernel is asked to compute, as a frozen, hashable record of a composite Relax function."""

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
        dtype: Dtype of the tensor; the anchor sees another one if a cast is part of the composite.
        kind: "input" for a parameter of the composite, "constant" for a tensor in its body.
        index: Position among the composite's parameters, or among its constants in the order that they are read.
        axes: How a permutation of its axes, part of the composite, orders them; none if empty.
    """

    shape: tuple[int, ...]
    dtype: str
    kind: Literal["input", "constant"]
    index: int
    axes: tuple[int, ...] = ()

    @property
    def seen(self) -> tuple[int, ...]:
        """Shape as the anchor reads it, after the permutation."""
        return tuple(self.shape[axis] for axis in self.axes) if self.axes else self.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride in elements of each axis, in the order in which the anchor reads them."""
        own = tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        return tuple(own[axis] for axis in self.axes) if self.axes else own


@dataclass(frozen=True)
class Step:
    """One epilogue step of a workload.

    Attributes:
        name: Name of the `EpilogueStep`.
        operand: The step's second operand, if it has one.
        bounds: Lower and upper bound of a clip.
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
        widths: Elements before and after of each axis.
        value: Value of the border.
    """

    widths: tuple[tuple[int, int], ...]
    value: float

    @classmethod
    def spatial(cls, padding: Sequence[int], value: float) -> "OperandPadding":
        """Return the pad of data [N, H, W, C] for a convolution's padding (top, left, bottom, right)."""
        top, left, bottom, right = padding
        return cls(((0, 0), (top, bottom), (left, right), (0, 0)), value)

    def padded(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the padded tensor."""
        return tuple(size + sum(width) for size, width in zip(shape, self.widths, strict=True))


@dataclass(frozen=True)
class Magnitude:
    """Accumulator bounds of an integer product, proven from its weights.

    Attributes:
        accumulator: Power of two above |acc|, offset included.
        scaled: Power of two above |acc * multiplier|, in units of the output.
        weight: Greatest |w|; 128, the bound of int8, if unknown.
        span: Greatest difference of two weights of a column; 255, the bound of int8, if unknown.
        fused: Whether most columns allow the fused requantisation, so that a kernel with code for both forms is faster.
    """

    accumulator: int
    scaled: int
    weight: int = 128
    span: int = 255
    fused: bool = False


@dataclass(frozen=True)
class Workload:
    """A composite without the values of its constants.

    Attributes:
        composite: Name of its `CompositeSpec`.
        operands: The anchor's operands.
        attributes: The anchor's attributes, sorted by name, values as text.
        epilogue: The steps after the anchor, in order.
        output_shape: Shape of the result.
        output_dtype: Dtype of the result.
        pad: Border of operand 0 that is part of the composite.
        magnitude: Bounds of the accumulators of an integer composite with constant weights.
        affine: Shift and lift of the affine form of a function of 8-bit values and a constant; see
            `schedules.kernels.elementwise.affine_forms`.
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
        """Return the epilogue step of that name, or None."""
        return next((step for step in self.epilogue if step.name == name), None)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The composite's parameters in order, each once even if it is read several times."""
        read = (*self.operands, *(step.operand for step in self.epilogue if step.operand))
        by_index = {operand.index: operand for operand in read if operand.kind == "input"}
        return tuple(by_index[index] for index in sorted(by_index))


@dataclass(frozen=True)
class Composite:
    """A workload together with the values of its constants, in the order of `Operand.index`."""

    workload: Workload
    constants: tuple[np.ndarray[Any, Any], ...]
