# SPDX-License-Identifier: Apache-2.0
"""Unrolling of LSTM, GRU and RNN nodes that `sequences` does not convert, into the equations of each step.

The steps are the body of a Scan, or unrolled if there are few.

A DynamicQuantizeLSTM that `sequences` can take becomes an LSTM with integer weights, preceded by its product with the
data.

    all steps at once    X W + b                          one matrix product
    step t               gates of (X W + b)[t] + h R      a matrix product and elementwise operators

Source: ONNX operator definitions LSTM-14, GRU-14, RNN-14.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import add, at, like, part, reshape, stack, up_to
from arm_ext.frontends.onnx.quantized import dynamic, matmul_integer
from arm_ext.frontends.onnx.recurrent_activations import Gate, activations
from arm_ext.frontends.onnx.sequences import BACKWARD, DEFAULTS, OF_INTEGERS, is_loop, is_loop_of_integers

_MOST_STEPS = 64
"""Largest number of steps that are unrolled."""

_IN_BODIES = 10
"""First opset in which a cell can be the body of a Scan: before, Slice needs the rank of its data."""

State = tuple[str, ...]

Product = Callable[[str], str]
"""Emits the product of a value and a matrix, and returns its name."""


@dataclass(frozen=True)
class _Weights:
    """Weights and biases of one direction's steps."""

    recurrent: Sequence[
        Product
    ]  # [hidden, gates · hidden], or one [hidden, hidden] per gate for a cell that multiplies gate by gate
    bias: Sequence[str]  # of the recurrent products: empty, or one for each product
    peepholes: Sequence[str]  # [hidden] each
    gates: Sequence[Gate]
    hidden: int


_Cell = Callable[[Expansion, str, State, _Weights], State]


@dataclass(frozen=True)
class _Kind:
    cell: _Cell
    gates: int
    states: int
    by_gate: bool = False


def _lstm_cell(e: Expansion, x: str, state: State, weights: _Weights) -> State:
    h, c = state
    total = add(e, x, weights.recurrent[0](h), *weights.bias)
    i, o, f, g = _equal(e, total, 4, weights.hidden)
    sigmoid, tanh, last = weights.gates
    if weights.peepholes:
        to_i, _, to_f = weights.peepholes
        i, f = add(e, i, e.emit("Mul", [c, to_i])), add(e, f, e.emit("Mul", [c, to_f]))
    i = sigmoid(i)
    f = e.emit("Sub", [like(e, 1, e.node.input[0]), i]) if e.attribute("input_forget", 0) else sigmoid(f)
    new = add(e, e.emit("Mul", [f, c]), e.emit("Mul", [i, tanh(g)]))
    if weights.peepholes:
        o = add(e, o, e.emit("Mul", [new, weights.peepholes[1]]))
    return e.emit("Mul", [sigmoid(o), last(new)]), new


def _gru_cell(e: Expansion, x: str, state: State, weights: _Weights) -> State:
    (h,) = state
    sigmoid, tanh = weights.gates
    xz, xr, xh = _equal(e, x, 3, weights.hidden)
    rz, rr, rh = weights.recurrent
    bz, br, bh = weights.bias or ("", "", "")
    z = sigmoid(add(e, xz, rz(h), bz))
    r = sigmoid(add(e, xr, rr(h), br))
    if e.attribute("linear_before_reset", 0):
        inner = e.emit("Mul", [r, add(e, rh(h), bh)])
    else:
        inner = add(e, rh(e.emit("Mul", [r, h])), bh)
    new = tanh(add(e, xh, inner))
    # (1 - z) new + z h
    return (add(e, new, e.emit("Mul", [z, e.emit("Sub", [h, new])])),)


def _rnn_cell(e: Expansion, x: str, state: State, weights: _Weights) -> State:
    (h,) = state
    return (weights.gates[0](add(e, x, weights.recurrent[0](h), *weights.bias)),)


_KINDS = {
    "LSTM": _Kind(_lstm_cell, 4, 2),
    "GRU": _Kind(_gru_cell, 3, 1, by_gate=True),
    "RNN": _Kind(_rnn_cell, 1, 1),
}


@dataclass(frozen=True)
class _Inputs:
    """A node's inputs except its weight matrices, and the number of directions and hidden units."""

    x: str  # [steps, batch, input], or with the batch first
    bias: str
    lengths: str
    initial: Sequence[str]
    peepholes: str
    directions: int
    hidden: int


def recurrent(e: Expansion) -> None:
    """Replace an LSTM, GRU or RNN node by its equations, unless `sequences` converts it to a loop."""
    if is_loop(e):
        return
    kind = _KINDS[e.node.op_type]
    x, w, r, b, lengths, *rest = e.inputs(
        "X W R B? lengths? h? c? P?" if kind.states > 1 else "X W R B? lengths? h?"
    )
    directions, _, hidden = e.dims(r)

    def products(d: int) -> tuple[Product, list[Product]]:
        first, matrix = (_transposed(e, _at(e, value, d)) for value in (w, r))
        return _by(e, first), [
            _by(e, m) for m in (_equal(e, matrix, 3, hidden) if kind.by_gate else [matrix])
        ]

    peepholes = "".join(rest[kind.states :])
    inputs = _Inputs(x, b, _lengths(e, x, lengths), rest[: kind.states], peepholes, directions, hidden)
    _unroll(e, kind, inputs, products)


def quantized_lstm(e: Expansion) -> None:
    """Replace a DynamicQuantizeLSTM node, which has integer weights and quantises its data at run time."""
    x, w, r, b, lengths, h, c, peepholes, *scales = e.inputs(
        "X W R B? lengths? h? c? P? W_scale W_zero_point R_scale R_zero_point"
    )
    directions, hidden, _ = e.dims(r)
    if is_loop_of_integers(e):
        lengths = _lengths(e, x, lengths) if lengths and e.value(lengths) is not None else lengths
        product = _of_all_directions(e, x, w, b, scales[:2])
        zero, scale = (np.atleast_2d(e.known(name).reshape(directions, -1)) for name in reversed(scales[2:]))
        weights = e.known(r).astype(np.int32) - zero[:, None].astype(np.int32)
        by_column = np.broadcast_to(scale, (directions, 4 * hidden)).astype(np.float32)
        inputs = [product, e.constant(by_column.copy()), e.constant(weights), "", lengths, h, c]
        node = helper.make_node("LSTM", inputs, list(e.node.output), hidden_size=hidden, **{OF_INTEGERS: 1})
        node.attribute.extend(e.attributes("hidden_size"))
        e.adopt(node)
        return

    def products(d: int) -> tuple[Product, list[Product]]:
        first, second = (
            _by_integers(e, *(_at(e, value, d) for value in triple))
            for triple in ((w, *scales[:2]), (r, *scales[2:]))
        )
        return first, [second]

    _unroll(
        e,
        _KINDS["LSTM"],
        _Inputs(x, b, _lengths(e, x, lengths), (h, c), peepholes, directions, hidden),
        products,
    )


def _of_all_directions(e: Expansion, x: str, w: str, b: str, scales: Sequence[str]) -> str:
    """Emit the product of the data, quantised once, with the concatenated weights of all directions, plus biases."""
    weights = e.known(w)
    directions, _, width = weights.shape
    sides = np.concatenate(list(weights), axis=-1)
    scale, zero = (
        np.broadcast_to(e.known(name).reshape(directions, -1), (directions, width)).ravel() for name in scales
    )
    held = (e.constant(sides), e.constant(scale.astype(np.float32)), e.constant(zero.copy()))
    product = matmul_integer(e, dynamic(e, x), held)
    if not b:
        return product
    first, second = np.split(e.known(b), 2, axis=-1)
    return e.emit("Add", [product, e.constant((first + second).ravel())])


def _by(e: Expansion, matrix: str) -> Product:
    return lambda value: e.emit("MatMul", [value, matrix])


def _by_integers(e: Expansion, matrix: str, scale: str, zero_point: str) -> Product:
    return lambda value: matmul_integer(e, dynamic(e, value), (matrix, scale, zero_point))


def _unroll(
    e: Expansion, kind: _Kind, inputs: _Inputs, products: Callable[[int], tuple[Product, list[Product]]]
) -> None:
    """Emit the node's outputs.

    `products` returns, for a direction, its product with the data and those with the state.
    """
    x, initial = inputs.x, list(inputs.initial)
    batch_first = bool(e.attribute("layout", 0))
    if batch_first:
        x, *initial = (value and e.emit("Transpose", [value], perm=[1, 0, 2]) for value in (x, *initial))
    steps, batch, _ = e.dims(x)
    defaults = DEFAULTS["LSTM" if kind.states > 1 else e.node.op_type]
    gates = activations(e, defaults, inputs.directions)
    zero = e.constant(np.zeros((batch, inputs.hidden), e.dtype(x)))
    ends: list[State] = []
    whole: list[str] = []
    sequences: list[list[str]] = []
    for d, backward in enumerate(BACKWARD[e.text("direction", "forward")]):
        first, recurrent = products(d)
        first_bias, bias = _biases(e, kind, inputs, d)
        peepholes = _equal(e, _at(e, inputs.peepholes, d), 3, inputs.hidden) if inputs.peepholes else []
        weights = _Weights(recurrent, bias, peepholes, gates[d], inputs.hidden)
        product = add(e, first(x), first_bias)
        state: State = tuple(at(e, value, d) if value else zero for value in initial)

        def step(t: str, row: str, state: State, weights: _Weights = weights) -> tuple[State, str]:
            after = kind.cell(e, row, state, weights)
            if not inputs.lengths:
                return after, after[0]
            return _ended(e, t, inputs.lengths, after, state, zero)

        if steps > _MOST_STEPS and e.opset() >= _IN_BODIES:
            shapes = (e.dtype(x), (batch, inputs.hidden), (batch, kind.gates * inputs.hidden))
            state, outputs = _scan(e, step, product, state, steps, *shapes, backward=backward)
            whole.append(outputs)
        else:
            rows = [""] * steps
            for t in reversed(range(steps)) if backward else range(steps):
                state, rows[t] = step(e.constant(np.array(t, np.int32)), at(e, product, t), state)
            sequences.append(rows)
        ends.append(state)

    def all_steps(output: str) -> str:
        if whole:
            return stack(e, whole, 1, output)
        return stack(e, [stack(e, rows) for rows in zip(*sequences, strict=True)], output=output)

    _write(e, all_steps, ends, batch_first)


def _scan(
    e: Expansion,
    step: Callable[[str, str, State], tuple[State, str]],
    product: str,
    state: State,
    steps: int,
    dtype: np.dtype[Any],
    of_state: tuple[int, ...],
    of_product: tuple[int, ...],
    *,
    backward: bool,
) -> tuple[State, str]:
    """Emit a Scan over the steps; return the last states, and the outputs of all steps."""
    before, e.nodes = e.nodes, []
    number, row, *held = (e.fresh(name) for name in ("number", "row", *["state"] * len(state)))
    after, output = step(number, row, tuple(held))
    results = [e.emit("Identity", [value]) for value in (*after, output)]
    nodes, e.nodes = e.nodes, before
    elem = helper.np_dtype_to_tensor_dtype(dtype)
    takes = [helper.make_tensor_value_info(name, elem, of_state) for name in held]
    takes.append(helper.make_tensor_value_info(number, TensorProto.INT32, ()))
    takes.append(helper.make_tensor_value_info(row, elem, of_product))
    gives = [helper.make_tensor_value_info(name, elem, of_state) for name in results]
    body = helper.make_graph(nodes, "step", takes, gives)
    last = [e.fresh("last") for _ in state]
    whole = e.fresh("rows")
    numbers = e.constant(np.arange(steps, dtype=np.int32))
    node = helper.make_node(
        "Scan",
        [*state, numbers, product],
        [*last, whole],
        body=body,
        num_scan_inputs=2,
        scan_input_directions=[int(backward)] * 2,
        scan_output_directions=[int(backward)],
    )
    e.adopt(node)
    return tuple(last), whole


def _biases(e: Expansion, kind: _Kind, inputs: _Inputs, d: int) -> tuple[str, list[str]]:
    """Return the bias of a direction's product with the data, and the biases of its products with the state."""
    if not inputs.bias:
        return "", []
    first, second = _equal(e, _at(e, inputs.bias, d), 2, kind.gates * inputs.hidden)
    return first, _equal(e, second, kind.gates, inputs.hidden) if kind.by_gate else [second]


def _lengths(e: Expansion, x: str, lengths: str) -> str:
    """Emit the lengths of sequences, none of which is longer than the number of steps."""
    steps = e.dims(x)[1 if e.attribute("layout", 0) else 0]
    return up_to(e, lengths, steps) if lengths else ""


def _ended(e: Expansion, t: str, lengths: str, new: State, old: State, zero: str) -> tuple[State, str]:
    """Return a step's state and output: past the end of a sequence, the old state and zero."""
    goes_on = e.emit("Less", [t, reshape(e, lengths, -1, 1)])
    kept = tuple(e.emit("Where", [goes_on, *pair]) for pair in zip(new, old, strict=True))
    return kept, e.emit("Where", [goes_on, new[0], zero])


def _write(
    e: Expansion,
    sequences: Callable[[str], str],
    ends: Sequence[State],
    batch_first: bool,
) -> None:
    """Write the outputs Y [steps, directions, batch, hidden], and the last states of each direction."""
    whole, *lasts = [*e.node.output, "", "", ""][: 1 + len(ends[0])]
    if whole:
        y = sequences("" if batch_first else whole)
        if batch_first:
            e.emit("Transpose", [y], whole, perm=[2, 0, 1, 3])
    for index, name in enumerate(lasts):
        if name:
            last = stack(e, [state[index] for state in ends], output="" if batch_first else name)
            if batch_first:
                e.emit("Transpose", [last], name, perm=[1, 0, 2])


def _at(e: Expansion, value: str, index: int) -> str:
    """Return the element at an index of the first axis.

    That of a constant is a constant, as the body of a Scan requires.
    """
    known = e.value(value)
    return at(e, value, index) if known is None else e.constant(np.array(known[index]))


def _transposed(e: Expansion, matrix: str) -> str:
    known = e.value(matrix)
    return e.emit("Transpose", [matrix], perm=[1, 0]) if known is None else e.constant(known.T.copy())


def _equal(e: Expansion, value: str, count: int, size: int) -> list[str]:
    """Split a value into `count` equal parts along the last axis; the parts of a constant are constants."""
    known = e.value(value)
    if known is not None:
        return [e.constant(known[..., k * size : (k + 1) * size].copy()) for k in range(count)]
    return [part(e, value, k * size, (k + 1) * size) for k in range(count)]
