# SPDX-License-Identifier: Apache-2.0
"""Unary functions of quantised values, such as activations: TABLE with 256 entries, or with 513 of int16 and RESCALE.

On Ethos-U85, Vela 5.2 chains a 16-bit TABLE with the next operator without writing its result to memory. If that one
is a 16-bit TABLE, too, both tables are loaded to the same place of the table memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Expr

from arm_ext.ethosu.ops.common.constraint import TOSA, Constraint, change
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_routine
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.tosa.common import looked_up, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from arm_ext.target.npu import Family
from schedules.numerics.tosa import scale_of


@dataclass(frozen=True, kw_only=True)
class Table(Attributes):
    """Attributes of a table look-up.

    Attributes:
        entries: 256 entries of the output's dtype; for 16-bit data 513 of int16, between which TABLE interpolates.
        shift: Right shift of the result, for 16-bit data.
        zero_point: Zero point of the result, for 16-bit data.
    """

    entries: Array
    shift: int = 0
    zero_point: int = 0

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the result with its zero point."""
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


def emit(graph: TosaGraph, operator: Operator[Table], data: TosaTensor) -> TosaTensor:
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
