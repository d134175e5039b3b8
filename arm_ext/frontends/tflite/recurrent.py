# SPDX-License-Identifier: Apache-2.0
"""TFLite's float LSTM and RNN over sequences, as one call for all steps.

An LSTM with peepholes, a projection, coupled gates, layer normalisation or a clipped cell is unrolled into the
equations of each step:

    all steps at once    X W + b                          one matrix product
    step t               gates of (X W + b)[t] + h R      a matrix product and elementwise operators

With 8-bit weights, x and h are quantised row by row to symmetric int8, as in LiteRT; `hybrid` has the other operators
with 8-bit weights, and `integer_lstm` those with 8-bit data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.ops.recurrent import Weights
from arm_ext.frontends.tflite.integer_lstm import integer_lstm
from arm_ext.frontends.tflite.operands import Convert, options_of
from arm_ext.frontends.tflite.sequences import (
    WALKED,
    Operands,
    State,
    activation_of,
    operands_of,
    run_steps,
    steps_first,
    walk_steps,
    walk_steps_of_bytes,
)
from schedules.numerics.recurrent import Activation, Cell

_R = relax.op

_CELL_ORDER = (0, 3, 1, 2)
"""Position of each of the cell's gates in TFLite's order."""

_EPSILON = 1e-8
"""Epsilon of the variance of layer-normalised gates (TensorFlow Lite, lstm_eval.cc)."""


def _rnn_direction(
    c: Any, o: Operands, first: int, activation: int, *, time_major: bool, backward: bool = False
) -> relax.Expr:
    """Emit one direction of an RNN.

    Weights, recurrent weights, bias and state are inputs `first` and those after it.
    """
    x = steps_first(c, o.value(0), time_major=time_major)
    if activation in WALKED and o.in_float(range(first, first + 3)):
        bias = o.array([first + 2])
        data, state = (o.array([first + k]).T.copy() for k in range(2))
        weights = Weights(data, state, bias, np.zeros_like(bias))
        cell = Cell("rnn", (WALKED[activation],), backward)
        return walk_steps(o, cell, x, weights, (first + 3,), time_major=time_major)
    if activation in WALKED and o.in_bytes((first, first + 1)) and o.in_float((first + 2,)):
        cell, bias = Cell("rnn", (WALKED[activation],), backward), o.array([first + 2])
        weights_of_bytes = ((first,), (first + 1,))
        return walk_steps_of_bytes(o, cell, x, weights_of_bytes, bias, (first + 3,), time_major=time_major)
    function = activation_of(activation)
    x = c.bb.emit(_R.add(o.product(x, [first]), o.joined([first + 2])))

    def step(row: relax.Expr, state: State) -> State:
        return (function(_R.add(row, o.product(state[0], [first + 1]))),)

    return run_steps(o, x, (first + 3,), step, time_major=time_major, backward=backward)


@dataclass(frozen=True)
class _Lstm:
    """Input numbers of an LSTM, by gate in the order input, forget, cell, output."""

    weights: int
    recurrent: int
    peephole: int
    bias: int
    projection: int
    state: int
    norm: int


_UNIDIRECTIONAL = _Lstm(1, 5, 9, 12, 16, 18, 20)
_FORWARD, _BACKWARD = _Lstm(1, 5, 9, 12, 16, 35, 48), _Lstm(18, 22, 26, 29, 33, 37, 48)


def _lstm_direction(
    c: Any, o: Operands, at: _Lstm, options: Any, *, time_major: bool, backward: bool = False
) -> relax.Expr:
    """Emit one direction of an LSTM; without an input gate, that gate is 1 minus the forget gate."""
    if _is_plain(o, at, options):
        return _walked(c, o, at, options, time_major=time_major, backward=backward)
    gates = [gate for gate in range(4) if o.has(at.weights + gate)]
    activation = activation_of(options.FusedActivationFunction())
    normed = o.has(at.norm + gates[-1])
    x = o.product(steps_first(c, o.value(0), time_major=time_major), [at.weights + gate for gate in gates])
    if not normed:
        x = _R.add(x, o.joined([at.bias + gate for gate in gates]))
    x = c.bb.emit(x)

    def gate_of(total: relax.Expr, gate: int, cell: relax.Expr) -> relax.Expr:
        peephole = at.peephole + {0: 0, 1: 1, 3: 2}.get(gate, -at.peephole - 1)
        if o.has(peephole) and peephole >= at.peephole:
            total = _R.add(total, _R.multiply(cell, o.joined([peephole])))
        if normed:
            total = _normed(total, o.joined([at.norm + gate]), o.joined([at.bias + gate]))
        return (activation if gate == 2 else _R.sigmoid)(total)

    def step(row: relax.Expr, state: State) -> State:
        h, cell = state
        total = c.bb.emit(_R.add(row, o.product(h, [at.recurrent + gate for gate in gates])))
        parts = c.bb.emit(_R.split(total, len(gates), -1))
        by_gate = {gate: relax.TupleGetItem(parts, k) for k, gate in enumerate(gates)}
        forget = c.bb.emit(gate_of(by_gate[1], 1, cell))
        one = relax.const(1.0, "float32")
        taken = gate_of(by_gate[0], 0, cell) if 0 in by_gate else _R.subtract(one, forget)
        new = _R.add(_R.multiply(forget, cell), _R.multiply(taken, gate_of(by_gate[2], 2, cell)))
        new = c.bb.emit(_clipped(new, options.CellClip()))
        y = _R.multiply(gate_of(by_gate[3], 3, new), activation(new))
        if o.has(at.projection):
            y = o.product(c.bb.emit(y), [at.projection])
            y = _R.add(y, o.joined([at.projection + 1])) if o.has(at.projection + 1) else y
            y = _clipped(y, options.ProjClip())
        return y, new

    return run_steps(o, x, (at.state, at.state + 1), step, time_major=time_major, backward=backward)


def _is_plain(o: Operands, at: _Lstm, options: Any) -> bool:
    """Whether `walk_steps` or `walk_steps_of_bytes` supports an LSTM."""
    weights = [first + gate for first in (at.weights, at.recurrent) for gate in range(4)]
    others = [*range(at.peephole, at.peephole + 3), at.projection, *range(at.norm, at.norm + 4)]
    activation = options.FusedActivationFunction()
    return (
        activation in WALKED
        and options.CellClip() == 0
        and (o.in_float(weights) or o.in_bytes(weights))
        and o.in_float(range(at.bias, at.bias + 4))
        and not any(map(o.has, others))
    )


def _walked(c: Any, o: Operands, at: _Lstm, options: Any, *, time_major: bool, backward: bool) -> relax.Expr:
    of_data, of_state, of_bias = (
        [first + gate for gate in _CELL_ORDER] for first in (at.weights, at.recurrent, at.bias)
    )
    activation, bias = WALKED[options.FusedActivationFunction()], o.array(of_bias)
    cell = Cell("lstm", (Activation("sigmoid"), activation, activation), backward)
    x, states = steps_first(c, o.value(0), time_major=time_major), (at.state, at.state + 1)
    if not o.in_float(of_data):
        return walk_steps_of_bytes(o, cell, x, (of_data, of_state), bias, states, time_major=time_major)
    weights = Weights(o.array(of_data).T.copy(), o.array(of_state).T.copy(), bias, np.zeros_like(bias))
    return walk_steps(o, cell, x, weights, states, time_major=time_major)


def _normed(x: relax.Expr, scale: relax.Expr, bias: relax.Expr) -> relax.Expr:
    return _R.nn.layer_norm(x, scale, bias, [-1], _EPSILON)


def _clipped(x: relax.Expr, limit: float) -> relax.Expr:
    return _R.clip(x, -limit, limit) if limit > 0 else x


def _float_operands(c: Any, op: Any) -> Operands:
    o = operands_of(c, op)
    if o.tensor(0).qnn_params:
        raise ModelError(
            "its data is quantised; only float data is supported, with weights in float or 8 bits"
        )
    return o


def _rnn(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), options_of(op, tflite.SequenceRNNOptions)
    activation = options.FusedActivationFunction()
    return _rnn_direction(c, o, 1, activation, time_major=options.TimeMajor())


def _lstm(c: Any, op: Any) -> relax.Expr:
    options = options_of(op, tflite.UnidirectionalSequenceLSTMOptions)
    if c.tensor(op.Inputs(0)).qnn_params:
        return integer_lstm(c, op, options)
    o = operands_of(c, op)
    return _lstm_direction(c, o, _UNIDIRECTIONAL, options, time_major=options.TimeMajor())


def _both(o: Operands, options: Any, auxiliary: int, ways: Sequence[relax.Expr]) -> relax.Expr:
    if o.has(auxiliary):
        raise ModelError("it has an auxiliary input, which is not supported")
    return _R.concat(ways, -1) if options.MergeOutputs() else relax.Tuple(ways)


def _bidirectional_rnn(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), options_of(op, tflite.BidirectionalSequenceRNNOptions)
    activation, time_major = options.FusedActivationFunction(), options.TimeMajor()
    ways = [
        _rnn_direction(c, o, first, activation, time_major=time_major, backward=first > 1) for first in (1, 5)
    ]
    return _both(o, options, 9, ways)


def _bidirectional_lstm(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), options_of(op, tflite.BidirectionalSequenceLSTMOptions)
    ways = [
        _lstm_direction(c, o, at, options, time_major=options.TimeMajor(), backward=at is _BACKWARD)
        for at in (_FORWARD, _BACKWARD)
    ]
    return _both(o, options, 39, ways)


RECURRENT: dict[str, Convert] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _rnn,
}
"""TFLite's operator name → its converter."""
