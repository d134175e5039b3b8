# SPDX-License-Identifier: Apache-2.0
"""Index of the maximum or minimum along an axis: ARGMAX; the minimum of int8 x is the maximum of -1 - x.

astype(argmax(x), "int32")    →    one argmax, whose indices are of 32 bits
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call, Expr, Var

from arm_ext.ethosu.ops.common.constraint import (
    EARLIER,
    MEASURED,
    SUPPORTED_OPS,
    Constraint,
    at_most,
    input_dtypes,
)
from arm_ext.ethosu.ops.common.contract import Operation, of_relax, operator_of
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Reader, axis_of, name_of
from arm_ext.ethosu.tosa.common import IGNORE_NAN, looked_up, reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

_KINDS = ("argmax", "argmin")


@dataclass(frozen=True, kw_only=True)
class Index(Attributes):
    """Attributes of argmax and argmin.

    Attributes:
        axis: The axis that is searched, counted from the first.
    """

    axis: int

    def data(self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor) -> Sequence[RunTimeTensor]:
        """Return the tensor that is searched; the output is left out, since indices are not quantised."""
        return inputs[:1]


def _attributes(call: Call, _: Reader) -> Index:
    return Index(axis=axis_of(call))


def parse_narrowed(var: Var, value: Expr, reader: Reader) -> Operator[Index] | None:
    """Parse an argmax or argmin whose int64 indices are only read by a cast to int32."""
    assert isinstance(value, Call), value
    if str(value.attrs.dtype) != "int32":
        return None
    index = reader.single(value.args[0])
    if index is None or name_of(index) not in _KINDS:
        return None
    found = operator_of(name_of(index), var, index, _attributes(index, reader), [index.args[0]])
    return replace(found, bindings=(value.args[0], var))


def _depth(operator: Operator[Index]) -> int:
    """Return the length of the axis that is reduced to an index; 0 if it is not the last axis."""
    shape = operator.inputs[0].shape
    return shape[-1] if operator.attributes.axis == len(shape) - 1 else 0


def _places(operator: Operator[Index]) -> int:
    """Return the number of indices that are computed for one image."""
    return math.prod(operator.inputs[0].shape[:-1])


_CONSTRAINTS: tuple[Constraint[Index], ...] = (
    Constraint(
        "its data are not int8", "int8", input_dtypes, lambda found: found == ("int8",),
        "quantise its data to int8", MEASURED,
    ),
    Constraint(
        "it searches another axis than the last, or too long a one", "the last axis, at most 127 long", _depth,
        lambda depth: 0 < depth <= 127, "put the axis last, or split it", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        "it computes too many indices", "at most 65536", _places, at_most(1 << 16), "split the data", SUPPORTED_OPS,
        EARLIER,
    ),
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Index], data: TosaTensor) -> TosaTensor:
    """Emit ARGMAX."""
    axis = operator.attributes.axis
    if operator.kind == "argmin":
        info = np.iinfo(data.dtype)
        data = looked_up(
            graph, data, graph.constant(np.arange(info.max, info.min - 1, -1).astype(data.dtype))
        )
    outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    # Ethos-U55 and U65 search along the channels of one image.
    rows = reshaped(
        graph, data, (1, outer, data.shape[axis]) if inner == 1 else (outer, data.shape[axis], inner)
    )
    along = 2 if inner == 1 else 1
    shape = [size for at, size in enumerate(rows.shape) if at != along]
    index = graph.add(ts.Op.ARGMAX, [rows], shape, operator.output.dtype, along, IGNORE_NAN)
    return reshaped(graph, index, operator.output.shape)


OPERATION: Operation[Index] = Operation(
    kinds=_KINDS,
    patterns={"astype": parse_narrowed, **{kind: of_relax(kind, _attributes) for kind in _KINDS}},
    constraints=_CONSTRAINTS,
    emit=emit,
)
