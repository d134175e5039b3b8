# SPDX-License-Identifier: Apache-2.0
"""Writes of rows or single elements at constant indices: SCATTER on the tensor reshaped to [1, rows, row size]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import OF_U85, TOSA, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array, Reader, constant, shape_of
from arm_ext.ethosu.tosa.common import reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Scatter(Attributes):
    """Attributes of scatter_elements and scatter_nd.

    Attributes:
        reduction: How an update is combined with the old value; "update" replaces it.
        rows: Indices of the written rows, in the order of the updates; None if they are computed at run time.
        values: The tensor that is written to, if it is constant.
        updates: The written values, if they are constant.
    """

    reduction: str
    rows: Array | None
    values: Array | None
    updates: Array | None

    def data(self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor) -> Sequence[RunTimeTensor]:
        """Return the output; indices are not quantised."""
        return (output,)


def _elements(call: Call, _: Reader) -> Scatter:
    """Return the attributes of scatter_elements, where one row is one element."""
    given, axis = shape_of(call.args[0]), int(call.attrs.axis)

    def places(indices: Array) -> list[Array]:
        own = axis % len(given)
        return [indices if at == own else along for at, along in enumerate(np.indices(indices.shape))]

    found = constant(call.args[1])
    return _written(call, given, None if found is None else places(found.astype(np.int64)))


def _rows(call: Call, _: Reader) -> Scatter:
    """Return the attributes of scatter_nd, where one row is the slice that the last axis of the indices selects."""
    found = constant(call.args[1])
    if found is None:
        return _written(call, (), None)
    depth = found.shape[-1]
    places = found.astype(np.int64).reshape(-1, depth).T
    return _written(call, shape_of(call.args[0])[:depth], list(places))


def _written(call: Call, sizes: tuple[int, ...], places: list[Array] | None) -> Scatter:
    rows = None
    if places is not None:
        flat = [at.reshape(-1) for at in places]
        inside = [np.where(at < 0, at + size, at) for at, size in zip(flat, sizes, strict=True)]
        rows = np.asarray(np.ravel_multi_index(tuple(inside), sizes, mode="clip"))
    given, _, updates = call.args
    reduction = str(call.attrs.reduction)
    return Scatter(reduction=reduction, rows=rows, values=constant(given), updates=constant(updates))


def _distinct(operator: Operator[Scatter]) -> str:
    rows = operator.attributes.rows
    if rows is None:
        return "indices computed at run time"
    return "distinct constants" if len(set(rows.tolist())) == rows.size else "a repeated index"


_CONSTRAINTS: tuple[Constraint[Scatter], ...] = (
    OF_U85,
    Constraint(
        "it combines updates with the old values", "update", lambda op: op.attributes.reduction,
        lambda reduction: reduction == "update", "leave it to the CPU", TOSA, ("u85",),
    ),
    Constraint(
        "it may write an element twice", "distinct constants", _distinct, lambda found: found == "distinct constants",
        "use distinct constant indices", TOSA, ("u85",),
    ),
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Scatter], *data: TosaTensor) -> TosaTensor:
    """Emit SCATTER."""
    given, runtime = operator.attributes, list(data)
    values, written = (
        runtime.pop(0) if held is None else graph.constant(held) for held in (given.values, given.updates)
    )
    rows = given.rows
    assert rows is not None, operator.nodes
    width = math.prod(written.shape) // rows.size
    table = reshaped(graph, values, (1, math.prod(values.shape) // width, width))
    pieces = reshaped(graph, written, (1, rows.size, width))
    index = graph.constant(rows.astype(np.int32).reshape(1, -1))
    done = graph.add(ts.Op.SCATTER, [table, index, pieces], table.shape, values.dtype)
    return reshaped(graph, done, operator.output.shape)


OPERATION: Operation[Scatter] = Operation(
    kinds=("scatter_elements", "scatter_nd"),
    patterns={
        "scatter_elements": of_relax("scatter_elements", _elements),
        "scatter_nd": of_relax("scatter_nd", _rows),
    },
    constraints=_CONSTRAINTS,
    emit=emit,
)
