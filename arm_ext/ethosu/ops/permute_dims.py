# SPDX-License-Identifier: Apache-2.0
"""Transpositions: TRANSPOSE."""

from dataclasses import dataclass

import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader, integers, shape_of
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Permutation(Attributes):
    """Attributes of a transposition.

    Attributes:
        axes: For each axis of the result, the axis of the data, counted from the first.
    """

    axes: tuple[int, ...]


def _attributes(call: Call, _: Reader) -> Permutation:
    rank, axes = len(shape_of(call.args[0])), call.attrs.axes
    return Permutation(axes=tuple(range(rank)[::-1] if axes is None else (a % rank for a in integers(axes))))


def emit(graph: TosaGraph, operator: Operator[Permutation], data: TosaTensor) -> TosaTensor:
    """Emit TRANSPOSE."""
    order = list(operator.attributes.axes)
    return graph.add(ts.Op.TRANSPOSE, [data], operator.output.shape, data.dtype, order)


OPERATION: Operation[Permutation] = Operation(
    kinds=("permute_dims",),
    patterns={"permute_dims": of_relax("permute_dims", _attributes)},
    emit=emit,
    quirks=Quirks(joined=True),
)
