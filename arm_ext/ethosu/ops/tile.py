# SPDX-License-Identifier: Apache-2.0
"""Repetition of a complete tensor (tile) or of each element along an axis (repeat): TILE."""

import math
from dataclasses import dataclass

from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, no_attributes, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader, shape_of
from arm_ext.ethosu.tosa.common import of_rank, reshaped, tiled
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

_KINDS = ("broadcast_to", "tile")


@dataclass(frozen=True, kw_only=True)
class Repeat(Attributes):
    """Attributes of relax.repeat.

    Attributes:
        before: Product of the sizes of the axes up to and including the repeated one.
    """

    before: int


def _repeat(call: Call, _: Reader) -> Repeat:
    shape, axis = shape_of(call.args[0]), call.attrs.axis
    return Repeat(before=math.prod(shape if axis is None else shape[: int(axis) % len(shape) + 1]))


def emit(graph: TosaGraph, operator: Operator[Attributes], data: TosaTensor) -> TosaTensor:
    """Emit TILE of a whole tensor."""
    out = operator.output.shape
    return tiled(graph, of_rank(graph, data, len(out)), out)


def emit_repeat(graph: TosaGraph, operator: Operator[Repeat], data: TosaTensor) -> TosaTensor:
    """Emit TILE along a new axis after the repeated one; after the flattened data if the call names no axis."""
    before, out = operator.attributes.before, operator.output.shape
    rows = reshaped(graph, data, (before, 1, math.prod(data.shape) // before))
    times = math.prod(out) // math.prod(data.shape)
    return reshaped(graph, tiled(graph, rows, (before, times, rows.shape[2])), out)


WHOLE: Operation[Attributes] = Operation(
    kinds=_KINDS, patterns={kind: of_relax(kind, no_attributes) for kind in _KINDS}, emit=emit
)
REPEAT: Operation[Repeat] = Operation(
    kinds=("repeat",), patterns={"repeat": of_relax("repeat", _repeat)}, emit=emit_repeat
)
