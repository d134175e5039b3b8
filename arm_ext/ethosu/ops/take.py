# SPDX-License-Identifier: Apache-2.0
"""Selection by index: SLICEs for constant indices in few runs, else GATHER, which Ethos-U55 and U65 lack."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import EARLIER, MEASURED, SUPPORTED_OPS, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array, Reader, axis_of, constant, shape_of
from arm_ext.ethosu.tosa.common import joined, reshaped, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

MAX_RUNS = 8
"""Runs of consecutive constant indices up to which slices cost less than a GATHER."""


@dataclass(frozen=True, kw_only=True)
class Take(Attributes):
    """Attributes of a selection.

    Attributes:
        shape: Shape of the tensor that is indexed.
        axis: The indexed axis, counted from the first.
        values: The tensor that is indexed, if it is constant.
        indices: Flat non-negative indices, if they are constant.
    """

    shape: tuple[int, ...]
    axis: int
    values: Array | None
    indices: Array | None

    def data(self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor) -> Sequence[RunTimeTensor]:
        """Return the output; indices are not quantised."""
        return (output,)

    @property
    def runs(self) -> list[tuple[int, int]] | None:
        """Runs of consecutive indices (first, one past the last); None for run-time indices."""
        if self.indices is None:
            return None
        cuts = np.flatnonzero(np.diff(self.indices) != 1) + 1
        return [(int(run[0]), int(run[-1]) + 1) for run in np.split(self.indices, cuts) if run.size]


def _attributes(call: Call, _: Reader) -> Take:
    values, index = call.args
    shape, axis, indices = shape_of(values), axis_of(call), constant(index)
    if indices is not None:
        flat = indices.reshape(-1)
        indices = np.asarray(np.where(flat < 0, flat + shape[axis], flat))
    return Take(shape=shape, axis=axis, values=constant(values), indices=indices)


def _index_runs(operator: Operator[Take]) -> int | None:
    """Return the number of runs of consecutive indices; None for run-time indices."""
    runs = operator.attributes.runs
    return None if runs is None else len(runs)


def _gathered_row(operator: Operator[Take]) -> int | None:
    """Return the number of elements that GATHER reads per index; None if SLICEs are emitted."""
    given = operator.attributes
    if given.runs is not None and len(given.runs) <= MAX_RUNS:
        return None
    return math.prod(given.shape[given.axis + 1 :])


_CONSTRAINTS: tuple[Constraint[Take], ...] = (
    Constraint(
        "its indices are not constants in few runs", f"at most {MAX_RUNS} runs", _index_runs,
        lambda found: found is not None and found <= MAX_RUNS, "slice and concatenate", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        "it gathers elements one by one", "rows of 2 and more", _gathered_row, lambda size: size is None or size > 1,
        "put the axis before another", MEASURED, ("u85",),
    ),
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Take], *data: TosaTensor) -> TosaTensor:
    """Emit SLICEs, or GATHER."""
    given, axis = operator.attributes, operator.attributes.axis
    values = data[0] if given.values is None else graph.constant(given.values)
    if given.runs is not None and len(given.runs) <= MAX_RUNS:
        parts = []
        for first, last in given.runs:
            start, size = [0] * len(values.shape), list(values.shape)
            start[axis], size[axis] = first, last - first
            parts.append(sliced(graph, values, start, size))
        return reshaped(graph, joined(graph, parts, axis), operator.output.shape)
    outer, inner = math.prod(values.shape[:axis]), math.prod(values.shape[axis + 1 :])
    table = reshaped(graph, values, (outer, values.shape[axis], inner))
    if given.indices is not None:
        index = graph.constant(np.tile(given.indices.astype(np.int32), (outer, 1)))
    else:
        index = reshaped(graph, data[-1], (1, math.prod(data[-1].shape)))
        if outer > 1:
            shape = (outer, index.shape[1])
            index = graph.add(ts.Op.TILE, [index, graph.sizes((outer, 1))], shape, index.dtype)
    picked = graph.add(ts.Op.GATHER, [table, index], (outer, index.shape[1], inner), values.dtype)
    return reshaped(graph, picked, operator.output.shape)


OPERATION: Operation[Take] = Operation(
    kinds=("take",), patterns={"take": of_relax("take", _attributes)}, constraints=_CONSTRAINTS, emit=emit
)
