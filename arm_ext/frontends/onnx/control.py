# SPDX-License-Identifier: Apache-2.0
"""Control flow that is known at compile time: a constant If, and unrolled Loop and Scan of constant length.

What is decided at run time stays, and a long Scan becomes a Loop, which stays, too: see `compose`.
"""

from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_ROUNDS
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import at, ints, stack
from arm_ext.frontends.onnx.partition import captures
from arm_ext.frontends.onnx.subgraphs import adopt_graph
from arm_ext.frontends.onnx.trip_count import rounds_of

_MOST_STEPS, _MOST_NODES = 1024, 2048
"""Largest number of steps that are unrolled, and of nodes in all of them together. A larger loop stays a loop."""

_BATCHED_SCAN = 8
"""The opset in which Scan has a batch axis and sequence lengths."""


def constant_if(e: Expansion) -> None:
    """Replace an If with a constant condition by the branch taken; leave other Ifs unchanged."""
    (condition,) = e.inputs("cond")
    value = e.value(condition)
    if value is not None:
        branch = body_of(e.node, "then_branch" if value.reshape(-1)[0] else "else_branch")
        _name(e, adopt_graph(e, branch, []))


def loop(e: Expansion) -> None:
    """Unroll a Loop with a constant number of iterations; leave other Loops unchanged."""
    trips, condition, *states = [*e.node.input, "", ""][: max(len(e.node.input), 2)]
    body = body_of(e.node, "body")
    count = e.value(trips) if trips else None
    begins = np.array(True) if not condition else e.value(condition)
    if begins is not None and not begins.all():
        count = np.array(0)
    scanned = list(e.node.output[len(states) :])
    may_end = _may_end(e, body)
    if may_end and begins is not None and (count is not None or not trips):
        limit = None if count is None else int(count.reshape(-1)[0])
        rounds = 0 if limit == 0 else rounds_of(e, body, limit)
        if rounds is not None:
            count, may_end = np.array(rounds), False
            trips = ""  # a long loop is not unrolled, but becomes a loop with a constant count
    if begins is not None and begins.all() and not may_end:
        if count is None and not trips:
            raise ModelError(
                "it has no number of iterations, and its condition is always true: it never ends"
            )
        if count is not None and count.reshape(-1)[0] > MOST_ROUNDS:
            raise ModelError(
                f"it has {count.reshape(-1)[0]} iterations; at most {MOST_ROUNDS} can be compiled"
            )
    if count is None or begins is None or may_end:
        if scanned:
            raise ModelError(
                f"'{scanned[0]}' has a row for each iteration, whose number is known only at run time; "
                "set a constant number of iterations, or remove this output"
            )
        return
    steps = int(count.reshape(-1)[0])
    if _is_long(steps, body):
        if not trips:
            _loop_of_rounds(e, body, steps, states)
        return
    rows: list[list[str]] = []
    true = e.constant(np.array(True))
    for step in range(steps):
        _, *results = adopt_graph(e, body, [e.constant(np.array(step, np.int64)), true, *states])
        states, row = results[: len(states)], results[len(states) :]
        rows.append(row)
    if scanned and not rows:
        raise ModelError(
            "it runs no iteration, so that its scan outputs have no elements; leave these outputs out"
        )
    _name(e, states)
    for output, column in zip(scanned, zip(*rows, strict=True), strict=True):
        stack(e, column, output=output)


def _loop_of_rounds(e: Expansion, body: GraphProto, steps: int, states: list[str]) -> None:
    """Replace a Loop that its condition ends by a Loop with a constant number of iterations."""
    counted = GraphProto.FromString(body.SerializeToString())
    name = e.fresh("on")
    counted.node.append(helper.make_node("Identity", [counted.input[1].name], [name]))
    counted.output[0].CopyFrom(helper.make_tensor_value_info(name, TensorProto.BOOL, []))
    trips = e.constant(np.array(steps, np.int64))
    e.adopt(helper.make_node("Loop", [trips, "", *states], list(e.node.output), body=counted))


def _is_long(steps: int, body: GraphProto) -> bool:
    return steps > _MOST_STEPS or steps * len(body.node) > _MOST_NODES


@dataclass(frozen=True)
class _Scan:
    """A Scan: its scanned inputs and their axes, and the axes of its outputs; a flag of 1 means reverse direction."""

    body: GraphProto
    steps: int
    states: list[str]
    sequences: list[str]
    axes: list[int]
    backward: list[int]
    out_axes: list[int]
    out_backward: list[int]


def scan(e: Expansion) -> None:
    """Unroll a Scan over axes of constant length."""
    if e.opset() <= _BATCHED_SCAN:
        raise ModelError(
            f"Scan of opset {_BATCHED_SCAN} is not supported; convert the model to opset 9 or newer"
        )
    body, inputs = body_of(e.node, "body"), list(e.node.input)
    scanned = int(e.attribute("num_scan_inputs", 0))
    states, sequences = inputs[:-scanned], inputs[-scanned:]
    count = len(body.output) - len(states)
    axes, backward = (
        [*map(int, e.numbers(f"scan_input_{n}") or [0] * scanned)] for n in ("axes", "directions")
    )
    out_axes, out_backward = (
        [*map(int, e.numbers(f"scan_output_{n}") or [0] * count)] for n in ("axes", "directions")
    )
    steps = e.dims(sequences[0])[axes[0]]
    found = _Scan(body, steps, states, sequences, axes, backward, out_axes, out_backward)
    if _is_long(steps, body):
        _scan_as_loop(e, found)
    else:
        _unrolled_scan(e, found)


def _unrolled_scan(e: Expansion, scan: _Scan) -> None:
    states = scan.states
    rows: list[list[str]] = []
    for step in range(scan.steps):
        elements = [
            at(e, value, scan.steps - 1 - step if back else step, axis)
            for value, axis, back in zip(scan.sequences, scan.axes, scan.backward, strict=True)
        ]
        results = adopt_graph(e, scan.body, [*states, *elements])
        states, row = results[: len(states)], results[len(states) :]
        rows.append(row)
    _name(e, states)
    for k, output in enumerate(e.node.output[len(states) :]):
        if not output:
            continue
        column = [row[k] for row in (reversed(rows) if scan.out_backward[k] else rows)]
        stack(e, column, scan.out_axes[k], output)


def _scan_as_loop(e: Expansion, scan: _Scan) -> None:
    """Replace a Scan by a Loop whose body selects the elements; the Loop's rows are along axis 0, in forward order."""
    number, last, left, go, on = (e.fresh(name) for name in ("number", "last", "left", "go", "on"))
    carried = len(scan.states)
    inner = [value.name for value in scan.body.input]
    nodes = [
        helper.make_node(
            "Constant", [], [last], value=numpy_helper.from_array(np.array(scan.steps - 1, np.int64))
        ),
        helper.make_node("Sub", [last, number], [left]),
        *(
            helper.make_node("Gather", [value, left if back else number], [name], axis=axis)
            for value, name, axis, back in zip(
                scan.sequences, inner[carried:], scan.axes, scan.backward, strict=True
            )
        ),
        *scan.body.node,
        helper.make_node("Identity", [go], [on]),
    ]
    kinds = {number: TensorProto.INT64, go: TensorProto.BOOL}
    scalars = [helper.make_tensor_value_info(name, kind, []) for name, kind in kinds.items()]
    body = helper.make_graph(nodes, "body", scalars, [], list(scan.body.initializer))
    body.input.extend(scan.body.input[:carried])
    body.output.extend([helper.make_tensor_value_info(on, TensorProto.BOOL, []), *scan.body.output])
    outputs = [*e.node.output, *[""] * len(scan.body.output)][: len(scan.body.output)]
    rows = [e.fresh("rows") if name else "" for name in outputs[carried:]]
    trips = e.constant(np.array(scan.steps, np.int64))
    e.adopt(helper.make_node("Loop", [trips, "", *scan.states], [*outputs[:carried], *rows], body=body))
    for k, (value, output) in enumerate(zip(rows, outputs[carried:], strict=True)):
        if output:
            _turned(e, value, scan, k, output)


def _turned(e: Expansion, rows: str, scan: _Scan, index: int, output: str) -> None:
    """Emit rows along the axis and in the direction of a Scan's output."""
    if scan.out_backward[index]:
        rows = e.emit("Gather", [rows, ints(e, *reversed(range(scan.steps)))], axis=0)
    rank = len(scan.body.output[len(scan.states) + index].type.tensor_type.shape.dim) + 1
    order = list(range(1, rank))
    order.insert(scan.out_axes[index] % rank, 0)
    e.emit("Transpose", [rows], output, perm=order)


def _name(e: Expansion, values: list[str]) -> None:
    """Pass values to the node's first outputs, by Identity."""
    for value, output in zip(values, e.node.output, strict=False):
        if output:
            e.emit("Identity", [value], output)


def body_of(node: NodeProto, name: str) -> GraphProto:
    """Return a subgraph of a node."""
    return next(a.g for a in node.attribute if a.name == name)


def _may_end(e: Expansion, body: GraphProto) -> bool:
    """Whether an iteration may end the loop: its condition is neither the one it gets nor constantly true."""
    outer = {name: e.value(name) for name in captures(body)}
    lasting = {body.input[1].name, *(t.name for t in body.initializer if numpy_helper.to_array(t).all())}
    lasting.update(name for name, value in outer.items() if value is not None and value.all())
    for node in body.node:
        passes = node.op_type in ("Identity", "Cast") and node.input[0] in lasting
        true = any(a.name == "value" and numpy_helper.to_array(a.t).all() for a in node.attribute)
        if passes or (node.op_type == "Constant" and true):
            lasting.add(node.output[0])
    return body.output[0].name not in lasting
