# SPDX-License-Identifier: Apache-2.0
"""Emission of operators that write rows or single elements at constant indices."""

import math

import numpy as np
import tosa_serializer as ts
from tvm.ir import GenericConst

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import shape_of
from arm_ext.ethosu.tosa.common import Array, reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, Value

SCATTERS = ("scatter_elements", "scatter_nd")


def scatter(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """SCATTER, of the tensor as rows of what one index writes."""
    runtime, (given, indices, updates) = list(data), operator.call.args
    values, written = (
        graph.constant(arg.value.numpy()) if isinstance(arg, GenericConst) else runtime.pop(0)
        for arg in (given, updates)
    )
    rows = written_rows(operator)
    assert rows is not None, indices
    width = math.prod(written.shape) // rows.size
    table = reshaped(graph, values, (1, math.prod(values.shape) // width, width))
    pieces = reshaped(graph, written, (1, rows.size, width))
    index = graph.constant(rows.astype(np.int32).reshape(1, -1))
    done = graph.add(ts.Op.SCATTER, [table, index, pieces], table.shape, values.dtype)
    return reshaped(graph, done, operator.output.shape)


def written_rows(operator: Operator) -> Array | None:
    """Return the rows that are written, in the order of the updates; None for run-time indices."""
    given, indices, _ = operator.call.args
    if not isinstance(indices, GenericConst):
        return None
    shape, found = shape_of(given), indices.value.numpy().astype(np.int64)
    if operator.kind == "scatter_nd":
        depth = found.shape[-1]
        places = list(found.reshape(-1, depth).T)
    else:
        depth, axis = len(shape), int(operator.call.attrs.axis) % len(shape)
        places = [found if at == axis else along for at, along in enumerate(np.indices(found.shape))]
        places = [along.reshape(-1) for along in places]
    sizes = shape[:depth]
    inside = [np.where(at < 0, at + size, at) for at, size in zip(places, sizes, strict=True)]
    return np.asarray(np.ravel_multi_index(tuple(inside), sizes, mode="clip"))
