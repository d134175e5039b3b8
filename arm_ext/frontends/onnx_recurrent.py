# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN as their equations, step by step.

    all steps at once    X W + b                          one matrix product
    step t               gates of (X W + b)[t] + h R      a matrix product and elementwise operators

The steps are unrolled: a model's sequence length is static, and equal steps share their kernels' code.
Source: ONNX operator definitions LSTM-14, GRU-14, RNN-14.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from arm_ext.frontends.onnx_expansion import Expansion
from arm_ext.frontends.onnx_forms import add, at, like, part, reshape, stack
from arm_ext.frontends.onnx_gates import Gate, activations

_BACKWARD = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

State = tuple[str, ...]


@dataclass(frozen=True)
class _Weights:
    """What each step of a direction multiplies and adds: names of values, "" for what is not there."""

    recurrent: str  # [hidden, gates * hidden]
    bias: str  # [gates * hidden], of the recurrent product
    peepholes: Sequence[str]  # [hidden] each
    gates: Sequence[Gate]


_Cell = Callable[[Expansion, str, State, _Weights], State]


@dataclass(frozen=True)
class _Kind:
    cell: _Cell
    gates: int
    activations: tuple[str, ...]
    states: int


def _lstm_cell(e: Expansion, x: str, state: State, weights: _Weights) -> State:
    h, c = state
    total = add(e, x, e.emit("MatMul", [h, weights.recurrent]), weights.bias)
    i, o, f, g = _quarters(e, total, 4)
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
    xz, xr, xh = _quarters(e, x, 3)
    rz, rr, rh = _quarters(e, weights.recurrent, 3)
    bz, br, bh = _quarters(e, weights.bias, 3) if weights.bias else ("", "", "")
    z = sigmoid(add(e, xz, e.emit("MatMul", [h, rz]), bz))
    r = sigmoid(add(e, xr, e.emit("MatMul", [h, rr]), br))
    if e.attribute("linear_before_reset", 0):
        inner = e.emit("Mul", [r, add(e, e.emit("MatMul", [h, rh]), bh)])
    else:
        inner = add(e, e.emit("MatMul", [e.emit("Mul", [r, h]), rh]), bh)
    new = tanh(add(e, xh, inner))
    # (1 - z) new + z h
    return (add(e, new, e.emit("Mul", [z, e.emit("Sub", [h, new])])),)


def _rnn_cell(e: Expansion, x: str, state: State, weights: _Weights) -> State:
    (h,) = state
    return (weights.gates[0](add(e, x, e.emit("MatMul", [h, weights.recurrent]), weights.bias)),)


_KINDS = {
    "LSTM": _Kind(_lstm_cell, 4, ("Sigmoid", "Tanh", "Tanh"), 2),
    "GRU": _Kind(_gru_cell, 3, ("Sigmoid", "Tanh"), 1),
    "RNN": _Kind(_rnn_cell, 1, ("Tanh",), 1),
}


def recurrent(e: Expansion) -> None:
    """Replace an LSTM, GRU or RNN node."""
    kind = _KINDS[e.node.op_type]
    x, w, r, b, lengths, *rest = e.inputs(
        "X W R B? lengths? h? c? P?" if kind.states > 1 else "X W R B? lengths? h?"
    )
    initial, peepholes = rest[: kind.states], "".join(rest[kind.states :])
    batch_first = bool(e.attribute("layout", 0))
    steps, batch = e.dims(x)[1::-1] if batch_first else e.dims(x)[:2]
    if batch_first:
        x = e.emit("Transpose", [x], perm=[1, 0, 2])
        initial = [value and e.emit("Transpose", [value], perm=[1, 0, 2]) for value in initial]
    directions, _, hidden = e.dims(r)
    gates = activations(e, kind.activations, directions)
    zero = e.constant(np.zeros((batch, hidden), e.dtype(x)))
    ends, sequences = [], []
    for d, backward in enumerate(_BACKWARD[e.text("direction", "forward")]):
        recurrent_bias = part(e, at(e, b, d), kind.gates * hidden, 2 * kind.gates * hidden) if b else ""
        row = at(e, peepholes, d) if peepholes else ""
        weights = _Weights(
            e.emit("Transpose", [at(e, r, d)], perm=[1, 0]),
            recurrent_bias,
            [part(e, row, k * hidden, (k + 1) * hidden) for k in range(3)] if row else [],
            gates[d],
        )
        product = e.emit("MatMul", [x, e.emit("Transpose", [at(e, w, d)], perm=[1, 0])])
        product = add(e, product, part(e, at(e, b, d), 0, kind.gates * hidden) if b else "")
        state: State = tuple(at(e, value, d) if value else zero for value in initial)
        outputs = [""] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            after = kind.cell(e, at(e, product, t), state, weights)
            state, outputs[t] = _ended(e, t, lengths, after, state, zero) if lengths else (after, after[0])
        ends.append(state)
        sequences.append(outputs)
    _write(e, sequences, ends, batch_first)


def _ended(e: Expansion, t: int, lengths: str, new: State, old: State, zero: str) -> tuple[State, str]:
    """State and output of a step: beyond a sequence's end the state stays, and the output is zero."""
    goes_on = e.emit("Less", [e.constant(np.array(t, np.int32)), reshape(e, lengths, -1, 1)])
    kept = tuple(e.emit("Where", [goes_on, *pair]) for pair in zip(new, old, strict=True))
    return kept, e.emit("Where", [goes_on, new[0], zero])


def _write(
    e: Expansion,
    sequences: Sequence[Sequence[str]],
    ends: Sequence[State],
    batch_first: bool,
) -> None:
    """Write Y [steps, directions, batch, hidden] and the last states [directions, batch, hidden]."""
    whole, *lasts = [*e.node.output, "", "", ""][: 1 + len(ends[0])]
    if whole:
        rows = [stack(e, outputs) for outputs in zip(*sequences, strict=True)]
        y = stack(e, rows, output="" if batch_first else whole)
        if batch_first:
            e.emit("Transpose", [y], whole, perm=[2, 0, 1, 3])
    for index, name in enumerate(lasts):
        if name:
            last = stack(e, [state[index] for state in ends], output="" if batch_first else name)
            if batch_first:
                e.emit("Transpose", [last], name, perm=[1, 0, 2])


def _quarters(e: Expansion, value: str, parts: int) -> list[str]:
    """Equal parts along the last axis."""
    size = e.dims(e.node.input[2])[-1]
    return [part(e, value, k * size, (k + 1) * size) for k in range(parts)]
