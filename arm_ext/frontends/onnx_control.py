# SPDX-License-Identifier: Apache-2.0
"""Control flow that is decided when a model is compiled: If of a constant, Loop and Scan of known length, unrolled."""

import numpy as np
from onnx import GraphProto, numpy_helper

from arm_ext.errors import ModelError
from arm_ext.frontends.onnx_expansion import Expansion
from arm_ext.frontends.onnx_forms import at, stack
from arm_ext.frontends.onnx_subgraphs import adopt_graph

_MOST_STEPS = 1024
"""Unrolled at most: each step's operators are calls of their own."""

_BATCHED_SCAN = 8
"""In this opset Scan has a batch axis, and lengths."""


def constant_if(e: Expansion) -> None:
    """The branch that a constant condition takes; another If stays."""
    (condition,) = e.inputs("cond")
    value = e.value(condition)
    if value is not None:
        branch = _body(e, "then_branch" if value.reshape(-1)[0] else "else_branch")
        _name(e, adopt_graph(e, branch, []))


def loop(e: Expansion) -> None:
    """A Loop over a constant number of iterations, none of which ends it."""
    trips, condition, *states = [*e.node.input, ""][: len(e.node.input)]
    body = _body(e, "body")
    count = e.value(trips) if trips else None
    if count is None:
        raise ModelError("its number of iterations is not constant")
    begins = np.array(True) if not condition else e.value(condition)
    if begins is None or _may_end(body):
        raise ModelError("its condition is not constant")
    count = count if begins.all() else np.array(0)
    steps = _bounded(int(count.reshape(-1)[0]))
    rows: list[list[str]] = []
    true = e.constant(np.array(True))
    for step in range(steps):
        _, *results = adopt_graph(e, body, [e.constant(np.array(step, np.int64)), true, *states])
        states, row = results[: len(states)], results[len(states) :]
        rows.append(row)
    scanned = list(e.node.output[len(states) :])
    if scanned and not rows:
        raise ModelError("it gives rows of no iteration")
    _name(e, states)
    for output, column in zip(scanned, zip(*rows, strict=True), strict=True):
        stack(e, column, output=output)


def scan(e: Expansion) -> None:
    """A Scan over axes of known length."""
    if e.opset() <= _BATCHED_SCAN:
        raise ModelError(
            f"Scan of opset {_BATCHED_SCAN} is not supported; convert the model to opset 9 or newer"
        )
    body, inputs = _body(e, "body"), list(e.node.input)
    scanned = int(e.attribute("num_scan_inputs", 0))
    states, sequences = inputs[:-scanned], inputs[-scanned:]
    count = len(body.output) - len(states)
    axes, backward = (
        [*map(int, e.numbers(f"scan_input_{n}") or [0] * scanned)] for n in ("axes", "directions")
    )
    out_axes, out_backward = (
        [*map(int, e.numbers(f"scan_output_{n}") or [0] * count)] for n in ("axes", "directions")
    )
    steps = _bounded(e.dims(sequences[0])[axes[0]])
    rows: list[list[str]] = []
    for step in range(steps):
        elements = [
            at(e, value, steps - 1 - step if back else step, axis)
            for value, axis, back in zip(sequences, axes, backward, strict=True)
        ]
        results = adopt_graph(e, body, [*states, *elements])
        states, row = results[: len(states)], results[len(states) :]
        rows.append(row)
    _name(e, states)
    for k, output in enumerate(e.node.output[len(states) :]):
        if not output:
            continue
        column = [row[k] for row in (reversed(rows) if out_backward[k] else rows)]
        stack(e, column, out_axes[k], output)


def _name(e: Expansion, values: list[str]) -> None:
    """Give values the names of the node's first outputs."""
    for value, output in zip(values, e.node.output, strict=False):
        if output:
            e.emit("Identity", [value], output)


def _body(e: Expansion, name: str) -> GraphProto:
    return next(a.g for a in e.node.attribute if a.name == name)


def _may_end(body: GraphProto) -> bool:
    """Whether an iteration gives another condition than the one it is given, or than a constant truth."""
    lasting = {body.input[1].name, *(t.name for t in body.initializer if numpy_helper.to_array(t).all())}
    for node in body.node:
        passes = node.op_type == "Identity" and node.input[0] in lasting
        true = any(a.name == "value" and numpy_helper.to_array(a.t).all() for a in node.attribute)
        if passes or (node.op_type == "Constant" and true):
            lasting.add(node.output[0])
    return body.output[0].name not in lasting


def _bounded(steps: int) -> int:
    if steps > _MOST_STEPS:
        raise ModelError(f"it has {steps} iterations, of which at most {_MOST_STEPS} are unrolled")
    return steps
