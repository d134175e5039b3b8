# SPDX-License-Identifier: Apache-2.0
"""Concatenation of tensors and constants along an axis: CONCAT."""

from dataclasses import dataclass

from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Array, Reader, constants
from arm_ext.ethosu.tosa.common import joined
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Concat(Attributes):
    """Attributes of a concatenation.

    Attributes:
        axis: The concatenated axis, counted from the first.
        parts: Value of each constant part; None for a part that is computed at run time.
    """

    axis: int
    parts: tuple[Array | None, ...]


def _attributes(call: Call, _: Reader) -> Concat:
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis)
    return Concat(axis=axis % len(call.ty.shape), parts=constants(list(call.args[0].fields)))


def emit(graph: TosaGraph, operator: Operator[Concat], *data: TosaTensor) -> TosaTensor:
    """Emit CONCAT."""
    given, runtime = operator.attributes, list(data)
    parts = [runtime.pop(0) if part is None else graph.constant(part) for part in given.parts]
    return joined(graph, parts, given.axis)


OPERATION: Operation[Concat] = Operation(
    kinds=("concat",),
    patterns={"concat": of_relax("concat", _attributes)},
    emit=emit,
    quirks=Quirks(reads_slices=True, writes_slices=True),
)
