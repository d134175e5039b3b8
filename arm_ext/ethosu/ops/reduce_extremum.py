# SPDX-License-Identifier: Apache-2.0
"""Maximum and minimum over axes: REDUCE_MAX or REDUCE_MIN, and for bools REDUCE_ANY or REDUCE_ALL."""

from collections.abc import Sequence
from dataclasses import dataclass

import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import (
    EARLIER,
    MEASURED,
    SUPPORTED_OPS,
    Constraint,
    dtypes,
    input_dtypes,
)
from arm_ext.ethosu.ops.common.contract import Operation, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Reader, integers, shape_of
from arm_ext.ethosu.tosa.common import IGNORE_NAN, reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Reduction(Attributes):
    """Attributes of a reduction.

    Attributes:
        axes: The reduced axes, counted from the first.
    """

    axes: tuple[int, ...]

    def data(self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor) -> Sequence[RunTimeTensor]:
        """Return both tensors, unless they are bools."""
        return () if output.dtype == "bool" else (*inputs, output)


def _attributes(call: Call, _: Reader) -> Reduction:
    rank, axes = len(shape_of(call.args[0])), call.attrs.axis
    return Reduction(axes=tuple(range(rank) if axes is None else (a % rank for a in integers(axes))))


_MINIMUM_OF_8_BITS: Constraint[Reduction] = Constraint(
    "Vela computes the minimum of 16-bit data wrong", "int8", input_dtypes, lambda found: found != ("int16",),
    "quantise its data to int8", MEASURED, EARLIER,
)  # fmt: skip
_OF_INTEGERS: Constraint[Reduction] = Constraint(
    "the accelerator reduces only integers", "int8 or int16", dtypes, lambda found: found != ("bool",),
    "leave it to the CPU", SUPPORTED_OPS, EARLIER,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Reduction], data: TosaTensor) -> TosaTensor:
    """Emit one reduction per axis."""
    greatest, truths = operator.kind == "max", data.dtype == "bool"
    of_integers = ts.Op.REDUCE_MAX if greatest else ts.Op.REDUCE_MIN
    of_truths = ts.Op.REDUCE_ANY if greatest else ts.Op.REDUCE_ALL
    kind, further = (of_truths, ()) if truths else (of_integers, (IGNORE_NAN,))
    for axis in operator.attributes.axes:
        shape = [1 if at == axis else size for at, size in enumerate(data.shape)]
        data = graph.add(kind, [data], shape, data.dtype, axis, *further)
    return reshaped(graph, data, operator.output.shape)


MAXIMUM: Operation[Reduction] = Operation(
    kinds=("max",), patterns={"max": of_relax("max", _attributes)}, constraints=(_OF_INTEGERS,), emit=emit
)
MINIMUM: Operation[Reduction] = Operation(
    kinds=("min",),
    patterns={"min": of_relax("min", _attributes)},
    constraints=(_MINIMUM_OF_8_BITS, _OF_INTEGERS),
    emit=emit,
)
