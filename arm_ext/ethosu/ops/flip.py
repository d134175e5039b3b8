# SPDX-License-Identifier: Apache-2.0
"""Reversal of the elements along an axis: REVERSE."""

from dataclasses import dataclass

from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader, axis_of
from arm_ext.ethosu.tosa.common import reversed_along
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Flip(Attributes):
    """Attributes of a reversal.

    Attributes:
        axis: The reversed axis, counted from the first.
    """

    axis: int


def _attributes(call: Call, _: Reader) -> Flip:
    return Flip(axis=axis_of(call))


def emit(graph: TosaGraph, operator: Operator[Flip], data: TosaTensor) -> TosaTensor:
    """Emit REVERSE."""
    return reversed_along(graph, data, operator.attributes.axis)


OPERATION: Operation[Flip] = Operation(
    kinds=("flip",), patterns={"flip": of_relax("flip", _attributes)}, emit=emit
)
