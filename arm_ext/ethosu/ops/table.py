# SPDX-License-Identifier: Apache-2.0
"""Functions of one value, such as activations: TABLE of 256 entries, or of 513 of 16 bits with RESCALE.

On Ethos-U85 Vela 5.2 hands what a table of 16 bits gives on to the next operator inside of the accelerator: where that
has another such table, both lie in the one place that the table memory has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Expr

from arm_ext.ethosu.ops.common.constraint import TOSA, Constraint, change
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_routine
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, Tensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.tosa.common import looked_up, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.target.npu import Family
from schedules.numerics.tosa import scale_of


@dataclass(frozen=True, kw_only=True)
class Table(Attributes):
    """Attributes of a table.

    Attributes:
        entries: 256 of the output's dtype; of 16-bit data 513 of int16, between which it interpolates.
        shift: Of what a table of 16-bit data gives.
        zero_point: Of the output of a table of 16-bit data.
    """

    entries: Array
    shift: int = 0
    zero_point: int = 0

    def zero_points(self, inputs: Sequence[Tensor], output: Tensor) -> Sequence[tuple[Tensor, int]]:
        """See `Attributes`."""
        return ((output, self.zero_point),)


def _attributes(given: Sequence[Expr], attrs: Mapping[str, Any]) -> Table:
    _, entries = given
    return Table(
        entries=entries.value.numpy(),
        shift=int(attrs.get("shift", 0)),
        zero_point=int(attrs.get("y_zero_point", 0)),
    )


_ENTRIES: Constraint[Table] = Constraint(
    "TOSA's table for data of 8 bits has entries of 8", "int8, or data of 16 bits", change,
    lambda pair: pair != ("int8", "int16"), "quantise both alike", TOSA,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Table], data: Value) -> Value:
    """Emit TABLE with 256 entries, or TABLE with 513 entries and RESCALE."""
    given = operator.attributes
    found = looked_up(graph, data, graph.constant(given.entries))
    if data.dtype != "int16":
        return found
    scale = scale_of(2.0**-given.shift)
    return rescale(graph, found, scale, operator.output.dtype, zero_point=given.zero_point)


def _barrier(operator: Operator[Any], family: Family) -> str | None:
    wide = family == "u85" and operator.inputs[0].dtype == "int16"
    return "the table memory holds one table of 16 bits" if wide else None


OPERATION: Operation[Table] = Operation(
    kinds=("table",),
    patterns=dict.fromkeys(("qdq.table", "tosa.table"), of_routine("table", _attributes)),
    constraints=(_ENTRIES,),
    emit=emit,
    quirks=Quirks(reads_slices=True, barrier=_barrier, barrier_behind=_barrier),
)
