# SPDX-License-Identifier: Apache-2.0
"""Requantisation to another scale and zero point: RESCALE and CLAMP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Expr

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always, of_routine
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.rescaling import JOINED, scale_named
from arm_ext.ethosu.tosa.common import clamped, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from schedules.numerics.tosa import RescaleFactor


@dataclass(frozen=True, kw_only=True)
class Rescale(Attributes):
    """Attributes of a requantisation.

    Attributes:
        input_zero_point: Zero point of the data.
        scale: Multiplier and shift.
        zero_point: Zero point of the result.
        low: Least value of the result.
        high: Greatest value of the result.
    """

    input_zero_point: int
    scale: RescaleFactor
    zero_point: int
    low: int
    high: int

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return data and result, each with its zero point."""
        return (inputs[0], self.input_zero_point), (output, self.zero_point)


def _attributes(_: Sequence[Expr], attrs: Mapping[str, Any]) -> Rescale:
    return Rescale(
        input_zero_point=int(attrs["x_zero_point"]),
        scale=scale_named(attrs, "y"),
        zero_point=int(attrs["y_zero_point"]),
        low=int(attrs["low"]),
        high=int(attrs["high"]),
    )


def emit(graph: TosaGraph, operator: Operator[Rescale], data: TosaTensor) -> TosaTensor:
    """Emit RESCALE and CLAMP."""
    given = operator.attributes
    zeros = {"input_zero_point": given.input_zero_point, "zero_point": given.zero_point}
    value = rescale(graph, data, given.scale, operator.output.dtype, **zeros)
    return clamped(graph, value, given.low, given.high)


OPERATION: Operation[Rescale] = Operation(
    kinds=("rescale",),
    patterns={"tosa.rescale": of_routine("rescale", _attributes)},
    emit=emit,
    quirks=Quirks(widens=always, barrier=lambda *_: JOINED),
)
