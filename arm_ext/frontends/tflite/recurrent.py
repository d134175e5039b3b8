# SPDX-License-Identifier: Apache-2.0
"""TFLite's LSTM and RNN over sequences, as their equations, step by step; float data.

    all steps at once    X W + b                          one matrix product
    step t               gates of (X W + b)[t] + h R      a matrix product and elementwise operators

The states are variables of the model; they begin at 0, as in LiteRT after its variables are reset. With 8-bit weights,
x and h are rounded row by row to 255 steps around 0, as LiteRT does it; see `hybrid` for its other operators.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.errors import ModelError
from arm_ext.frontends.tflite.forms import Convert, shape_of

_R = relax.op

_EPSILON = 1e-8
"""Of the variance of normalised gates (TensorFlow Lite, lstm_eval.cc)."""

_ROUNDED_TO = 127.0
"""Greatest value of rounded data."""

_ACTIVATIONS: dict[int, Callable[[relax.Expr], relax.Expr]] = {
    tflite.ActivationFunctionType.NONE: lambda x: x,
    tflite.ActivationFunctionType.RELU: _R.nn.relu,
    tflite.ActivationFunctionType.RELU6: lambda x: _R.clip(x, 0, 6),
    tflite.ActivationFunctionType.TANH: _R.tanh,
}

State = tuple[relax.Expr, ...]
Step = Callable[[relax.Expr, State], State]
"""From a step's part of X W + b and the state to the next state, whose first is the output."""


@dataclass(frozen=True)
class _Operands:
    """The inputs of an operator, and what is done with them."""

    c: Any
    numbers: Sequence[int]

    def has(self, at: int) -> bool:
        return at < len(self.numbers) and self.numbers[at] >= 0

    def tensor(self, at: int) -> Any:
        return self.c.tensor(self.numbers[at])

    def value(self, at: int) -> relax.Expr:
        return self.c.bb.normalize(self.c.get_expr(self.numbers[at]))

    def or_zero(self, at: int) -> relax.Expr:
        """An initial state."""
        if self.has(at) and self.c.has_expr(self.numbers[at]):
            return self.value(at)
        return relax.const(np.zeros(shape_of(self.tensor(at)), np.float32))

    def joined(self, places: Sequence[int]) -> relax.Expr:
        """Constants side by side along their first axis."""
        for at in places:
            if not (self.has(at) and self.tensor(at).buffer.DataLength()):
                raise ModelError(f"its input {at} is not a constant")
        return relax.const(np.concatenate([self.c.get_tensor_value(self.tensor(at)) for at in places]))

    def product(self, x: relax.Expr, places: Sequence[int]) -> relax.Expr:
        """X times the transposed weights, rounded first where they have 8 bits."""
        weights = np.concatenate([self.c.get_tensor_value(self.tensor(at)) for at in places])
        if self.tensor(places[0]).qnn_params:
            x = _rounded(x)
        return _R.matmul(x, relax.const(np.ascontiguousarray(weights.T)))


def _rounded(x: relax.Expr) -> relax.Expr:
    """Each row to the nearest of 255 steps between its largest |x| and the negative of that, half away from 0."""
    most = _R.max(_R.abs(x), [-1], keepdims=True)
    one, steps, half = (relax.const(v, "float32") for v in (1.0, _ROUNDED_TO, 0.5))
    most = _R.where(_R.equal(most, relax.const(0.0, "float32")), one, most)
    scaled = _R.multiply(x, _R.divide(steps, most))
    whole = _R.multiply(_R.sign(scaled), _R.floor(_R.add(_R.abs(scaled), half)))
    return _R.multiply(whole, _R.divide(most, steps))


def _activation(number: int) -> Callable[[relax.Expr], relax.Expr]:
    if number not in _ACTIVATIONS:
        raise ModelError(f"its activation {number} is none that an LSTM or RNN has here")
    return _ACTIVATIONS[number]


def _run(
    c: Any, x: relax.Expr, state: State, step: Step, *, time_major: bool, backward: bool = False
) -> relax.Expr:
    """All steps; `x` is [steps, batch, ...]."""
    count = int(x.ty.shape[0])
    outputs: list[relax.Expr] = [None] * count
    for t in reversed(range(count)) if backward else range(count):
        row = c.bb.emit(_R.squeeze(_R.strided_slice(x, [0], [t], [t + 1]), [0]))
        state = tuple(c.bb.emit(value) for value in step(row, state))
        outputs[t] = state[0]
    return c.bb.emit(_R.stack(outputs, 0 if time_major else 1))


def _steps_first(c: Any, x: relax.Expr, *, time_major: bool) -> relax.Expr:
    return x if time_major else c.bb.emit(_R.permute_dims(x, [1, 0, 2]))


def _rnn_direction(
    c: Any, o: _Operands, first: int, activation: Any, *, time_major: bool, backward: bool = False
) -> relax.Expr:
    """Weights, recurrent weights, bias and state are inputs `first` and those after it."""
    x = _steps_first(c, o.value(0), time_major=time_major)
    x = c.bb.emit(_R.add(o.product(x, [first]), o.joined([first + 2])))

    def step(row: relax.Expr, state: State) -> State:
        return (activation(_R.add(row, o.product(state[0], [first + 1]))),)

    return _run(c, x, (o.or_zero(first + 3),), step, time_major=time_major, backward=backward)


@dataclass(frozen=True)
class _Lstm:
    """Which inputs are what: by gate, input, forget, cell, output."""

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
    c: Any, o: _Operands, at: _Lstm, options: Any, *, time_major: bool, backward: bool = False
) -> relax.Expr:
    """Gates are those there are: without that of the input, it is 1 less the forget gate."""
    gates = [gate for gate in range(4) if o.has(at.weights + gate)]
    activation = _activation(options.FusedActivationFunction())
    normed = o.has(at.norm + gates[-1])
    x = o.product(_steps_first(c, o.value(0), time_major=time_major), [at.weights + gate for gate in gates])
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

    state = o.or_zero(at.state), o.or_zero(at.state + 1)
    return _run(c, x, state, step, time_major=time_major, backward=backward)


def _normed(x: relax.Expr, scale: relax.Expr, bias: relax.Expr) -> relax.Expr:
    return _R.nn.layer_norm(x, scale, bias, [-1], _EPSILON)


def _clipped(x: relax.Expr, limit: float) -> relax.Expr:
    return _R.clip(x, -limit, limit) if limit > 0 else x


def _float_operands(c: Any, op: Any) -> _Operands:
    o = _Operands(c, [int(number) for number in op.InputsAsNumpy()])
    if o.tensor(0).qnn_params:
        raise ModelError("its data are quantised; float data are taken, with weights in float or 8 bits")
    return o


def _rnn(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), c._get_builtin_options(op, tflite.SequenceRNNOptions)
    activation = _activation(options.FusedActivationFunction())
    return _rnn_direction(c, o, 1, activation, time_major=options.TimeMajor())


def _lstm(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), c._get_builtin_options(op, tflite.UnidirectionalSequenceLSTMOptions)
    return _lstm_direction(c, o, _UNIDIRECTIONAL, options, time_major=options.TimeMajor())


def _both(o: _Operands, options: Any, auxiliary: int, ways: Sequence[relax.Expr]) -> relax.Expr:
    if o.has(auxiliary):
        raise ModelError("it has an auxiliary input; models without one are taken")
    return _R.concat(ways, -1) if options.MergeOutputs() else relax.Tuple(ways)


def _bidirectional_rnn(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), c._get_builtin_options(op, tflite.BidirectionalSequenceRNNOptions)
    activation, time_major = _activation(options.FusedActivationFunction()), options.TimeMajor()
    ways = [
        _rnn_direction(c, o, first, activation, time_major=time_major, backward=first > 1) for first in (1, 5)
    ]
    return _both(o, options, 9, ways)


def _bidirectional_lstm(c: Any, op: Any) -> relax.Expr:
    o, options = _float_operands(c, op), c._get_builtin_options(op, tflite.BidirectionalSequenceLSTMOptions)
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
"""TFLite's operator name → what converts it."""
