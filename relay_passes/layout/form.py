# SPDX-License-Identifier: Apache-2.0
"""The channels-last layout of a value ("form"): its permutation of elements, and the conversions to it and back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from tvm import relax
from tvm.ir import Expr


@dataclass(frozen=True)
class Flat:
    """The role of an axis that a reshape merged from axes of several roles, such as the flatten before a linear layer.

    Attributes:
        sizes: Sizes of the axes that were merged, in the model's order.
        order: Indices of these axes, in the order that they have in memory once channels come last.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]


Role = Literal["N", "S", "C"] | Flat
"""Role of an axis: batch, space, channels, or several of them flattened."""

# The channels-last order of roles; axes of the same role keep their order.
_RANK = {"N": 0, "S": 1, "C": 2}


def channels_last(roles: Sequence[Role | None]) -> tuple[int, ...]:
    """Return the channels-last order of axes; an axis without a role directly follows its predecessor."""
    ranks: list[int] = []
    for role in roles:
        ranks.append(_RANK[role] if isinstance(role, str) else ranks[-1] if ranks else 0)
    return tuple(sorted(range(len(ranks)), key=ranks.__getitem__))


@dataclass(frozen=True)
class Form:
    """A layout of a value: a permutation of its elements that keeps its rank.

    Attributes:
        shape: The value's shape in the model.
        order: Axis `i` of the value in this layout is axis `order[i]` of the value in the model.
        flats: For each axis of the value in the model, the order of elements along the axis; None for the model's
            order.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    flats: tuple[Flat | None, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], roles: Sequence[Role | None]) -> "Form":
        """Return the channels-last form of a value whose axes have the given roles."""
        flats = (
            role if isinstance(role, Flat) and math.prod(role.sizes) == size else None
            for role, size in zip(roles, shape, strict=True)
        )
        return cls(shape, channels_last(roles), tuple(flats))

    @classmethod
    def ordered(cls, shape: tuple[int, ...], order: Sequence[int]) -> "Form":
        """Return the form that only permutes axes."""
        return cls(shape, tuple(order), (None,) * len(shape))

    @property
    def physical(self) -> tuple[int, ...]:
        """Shape of the value in this form."""
        return tuple(self.shape[axis] for axis in self.order)

    def position(self, axis: int) -> int:
        """Return the position in this form of an axis of the model (negative: counted from the end)."""
        return self.order.index(axis % len(self.shape))

    @cached_property
    def _split(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the sizes of all axes, with merged axes split into their parts, and their order in the form."""
        sizes: list[int] = []
        inside: list[list[int]] = []
        for size, flat in zip(self.shape, self.flats, strict=True):
            parts, order = (flat.sizes, flat.order) if flat else ((size,), (0,))
            inside.append([len(sizes) + index for index in order])
            sizes += parts
        return tuple(sizes), tuple(index for axis in self.order for index in inside[axis])

    @cached_property
    def strides(self) -> tuple[tuple[int, int], ...]:
        """Return (size, stride in the model's layout) of the axes of size > 1, with contiguous axes merged."""
        sizes, order = self._split
        runs: list[tuple[int, int]] = []
        for index in order:
            size, stride = sizes[index], math.prod(sizes[index + 1 :])
            if size == 1:
                continue
            if runs and runs[-1][1] == size * stride:
                runs[-1] = runs[-1][0] * size, stride
            else:
                runs.append((size, stride))
        return tuple(runs)

    @property
    def is_view(self) -> bool:
        """Whether the conversion moves no elements, so that a reshape is sufficient."""
        return len(self.strides) <= 1

    @property
    def is_trivial(self) -> bool:
        """Whether the form is the layout in the model."""
        return self.is_view and self.physical == self.shape

    def same(self, other: "Form") -> bool:
        """Whether both forms have the same shape and the same order of elements."""
        return self.physical == other.physical and self.strides == other.strides

    def array(self, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a constant converted to this form; the constant may lack leading axes of size 1."""
        sizes, order = self._split
        return np.ascontiguousarray(value.reshape(sizes).transpose(order)).reshape(self.physical)

    def steps_in(self) -> list["LayoutStep"]:
        """Return the operators that convert a value from the model's layout to this form."""
        sizes, order = self._split
        return _steps(self.shape, sizes, order, self.physical, view=self.is_view)

    def steps_out(self) -> list["LayoutStep"]:
        """Return the operators that convert a value from this form to the model's layout."""
        sizes, order = self._split
        moved = tuple(sizes[index] for index in order)
        back = tuple(order.index(index) for index in range(len(order)))
        return _steps(self.physical, moved, back, self.shape, view=self.is_view)


@dataclass(frozen=True)
class LayoutStep:
    """A `permute_dims` (if `permute`) or a `reshape`, with `numbers` as its axes or shape."""

    permute: bool
    numbers: tuple[int, ...]

    def call(self, value: Expr) -> Expr:
        """Return a call of the step's operator on a value."""
        return (
            relax.op.permute_dims(value, self.numbers)
            if self.permute
            else relax.op.reshape(value, self.numbers)
        )


def _steps(
    before: tuple[int, ...],
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    after: tuple[int, ...],
    *,
    view: bool,
) -> list[LayoutStep]:
    if view:
        return [] if before == after else [LayoutStep(False, after)]
    moved = tuple(sizes[index] for index in order)
    steps = [] if before == sizes else [LayoutStep(False, sizes)]
    steps.append(LayoutStep(True, order))
    return steps if moved == after else [*steps, LayoutStep(False, after)]
