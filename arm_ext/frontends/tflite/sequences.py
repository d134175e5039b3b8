# SPDX-License-Identifier: Apache-2.0
"""Helpers of TFLite's operators over sequences: operands, states, and the loop over steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.ops.recurrent import (
    Integers,
    Walked,
    Weights,
    run_sequence,
    run_sequence_of_integers,
)
from arm_ext.frontends.tflite.operands import shape_of
from schedules.numerics.recurrent import Activation, Cell

_R = relax.op

_ROUNDED_TO = 127.0
"""Greatest value of rounded data."""

_ACTIVATIONS: dict[int, Callable[[relax.Expr], relax.Expr]] = {
    tflite.ActivationFunctionType.NONE: lambda x: x,
    tflite.ActivationFunctionType.RELU: _R.nn.relu,
    tflite.ActivationFunctionType.RELU6: lambda x: _R.clip(x, 0, 6),
    tflite.ActivationFunctionType.TANH: _R.tanh,
}

WALKED = {
    tflite.ActivationFunctionType.RELU: Activation("relu"),
    tflite.ActivationFunctionType.TANH: Activation("tanh"),
}
"""Activations of cells that `walk_steps` supports."""

State = tuple[relax.Expr, ...]
Step = Callable[[relax.Expr, State], State]
"""Function from a step's rows of X W + b and the state to the next state, whose first tensor is the output."""


@dataclass(frozen=True)
class Operands:
    """The inputs of an operator over sequences, by their numbers."""

    c: Any
    numbers: Sequence[int]

    def has(self, at: int) -> bool:
        """Whether an input is present."""
        return at < len(self.numbers) and self.numbers[at] >= 0

    def tensor(self, at: int) -> Any:
        """Return the file's tensor that is input `at` of the operator."""
        return self.c.tensor(self.numbers[at])

    def value(self, at: int) -> relax.Expr:
        """Return the float value of an input."""
        return self.c.bb.normalize(self.c.get_expr(self.numbers[at]))

    def integers(self, at: int) -> npt.NDArray[Any]:
        """Return a constant input's elements as stored."""
        self._check_constant(at)
        value: npt.NDArray[Any] = self.c.integers(self.tensor(at))
        return value

    def quantization(self, at: int) -> tuple[float, int]:
        """Return scale and zero point of a per-tensor quantised input."""
        return quantization_of(self.tensor(at))

    def state(self, at: int) -> relax.Expr:
        """Return the value that a state has before the operator, in its own dtype."""
        tensor = self.tensor(at)
        if not self.c.is_known(self.numbers[at]):
            name = self.c.get_tensor_type_str(tensor.tensor.Type())
            return relax.const(np.zeros(shape_of(tensor), name), name)
        return self.c.bb.normalize(self.c.value(self.numbers[at]))

    def keep(self, at: int, value: relax.Expr) -> None:
        """Set the value that a state has after the operator."""
        value = self.c.bb.normalize(value)
        shape = shape_of(self.tensor(at))
        self.c.values[self.numbers[at]] = self.c.bb.emit(_R.reshape(value, shape))

    def joined(self, places: Sequence[int]) -> relax.Expr:
        """Return constant inputs, concatenated along their first axis."""
        return relax.const(self.array(places))

    def array(self, places: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of constant inputs, concatenated along their first axis."""
        for at in places:
            self._check_constant(at)
        return np.concatenate([self.c.get_tensor_value(self.tensor(at)) for at in places])

    def in_float(self, places: Sequence[int]) -> bool:
        """Whether all given inputs are float32 constants."""
        return all(
            self.has(at)
            and self.tensor(at).buffer.DataLength() > 0
            and self.tensor(at).tensor.Type() == tflite.TensorType.FLOAT32
            for at in places
        )

    def in_bytes(self, places: Sequence[int]) -> bool:
        """Whether all given inputs are int8 constants with one scale and without zero point."""
        return all(
            self.has(at)
            and self.tensor(at).buffer.DataLength() > 0
            and self.tensor(at).tensor.Type() == tflite.TensorType.INT8
            and self.tensor(at).qnn_params
            and self.tensor(at).qnn_params["scale"].value.numpy().size == 1
            and not self.tensor(at).qnn_params["zero_point"].value.numpy().any()
            for at in places
        )

    def bytes_of(self, places: Sequence[int]) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
        """Return int8 constants, concatenated to columns [inputs, units], and the scale of each column."""
        values = [self.integers(at) for at in places]
        scales = [np.full(len(v), self.quantization(at)[0]) for v, at in zip(values, places, strict=True)]
        return np.concatenate(values).T.copy(), np.concatenate(scales).astype(np.float32)

    def product(self, x: relax.Expr, places: Sequence[int]) -> relax.Expr:
        """Return x · weightsᵀ; for 8-bit weights, x is quantised first."""
        weights = np.concatenate([self.c.get_tensor_value(self.tensor(at)) for at in places])
        if self.tensor(places[0]).qnn_params:
            x = rounded(x)
        return _R.matmul(x, relax.const(np.ascontiguousarray(weights.T)))

    def _check_constant(self, at: int) -> None:
        if not (self.has(at) and self.tensor(at).buffer.DataLength()):
            raise ModelError(f"its input {at} is not a constant")


def quantization_of(tensor: Any) -> tuple[float, int]:
    """Return scale and zero point of a per-tensor quantised tensor.

    Raises:
        ModelError: The tensor is quantised per channel, or not at all.
    """
    if not tensor.qnn_params:
        raise ModelError("one of its tensors is not quantised, but others are")
    scale, zero_point = (tensor.qnn_params[key].value.numpy() for key in ("scale", "zero_point"))
    if scale.size != 1:
        raise ModelError(
            f"one of its tensors is quantised with {scale.size} scales; only one scale is supported"
        )
    return float(scale.item()), int(zero_point.item())


def operands_of(c: Any, op: Any) -> Operands:
    """Return the inputs of an operator."""
    return Operands(c, [int(number) for number in op.InputsAsNumpy()])


def rounded(x: relax.Expr) -> relax.Expr:
    """Round each row to multiples of max |x| / 127, half away from 0."""
    whole, step = symmetric(x)
    return _R.multiply(whole, step)


def symmetric(x: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Quantise rows to symmetric int8; return the integers as float32, and one scale per row."""
    most = _R.max(_R.abs(x), [-1], keepdims=True)
    one, steps, half = (relax.const(v, "float32") for v in (1.0, _ROUNDED_TO, 0.5))
    most = _R.where(_R.equal(most, relax.const(0.0, "float32")), one, most)
    scaled = _R.multiply(x, _R.divide(steps, most))
    whole = _R.multiply(_R.sign(scaled), _R.floor(_R.add(_R.abs(scaled), half)))
    return whole, _R.divide(most, steps)


def activation_of(number: int) -> Callable[[relax.Expr], relax.Expr]:
    """Return the function for an activation's number in TFLite's schema.

    Raises:
        ModelError: The activation is not supported.
    """
    if number not in _ACTIVATIONS:
        raise ModelError(f"its activation {number} is not supported in an LSTM, RNN or SVDF")
    return _ACTIVATIONS[number]


def run_steps(
    o: Operands, x: relax.Expr, states: Sequence[int], step: Step, *, time_major: bool, backward: bool = False
) -> relax.Expr:
    """Unroll all steps of an operator, and update its states.

    Args:
        o: Operands of the operator.
        x: [steps, batch, ...].
        states: Indices of the inputs that are states.
        step: Emits one step.
        time_major: Whether the result has the steps first, too.
        backward: Whether the last step is the first.
    """
    bb, count = o.c.bb, int(x.ty.shape[0])
    outputs: list[relax.Expr] = [None] * count
    state = tuple(o.state(at) for at in states)
    for t in reversed(range(count)) if backward else range(count):
        row = bb.emit(_R.squeeze(_R.strided_slice(x, [0], [t], [t + 1]), [0]))
        state = tuple(bb.emit(value) for value in step(row, state))
        outputs[t] = state[0]
    for at, value in zip(states, state, strict=True):
        o.keep(at, value)
    return bb.emit(_R.stack(outputs, 0 if time_major else 1))


def walk_steps(
    o: Operands, cell: Cell, x: relax.Expr, weights: Weights, states: Sequence[int], *, time_major: bool
) -> relax.Expr:
    """Emit all steps of a cell as one call, and update the states.

    Args:
        o: Operands of the operator.
        cell: Cell that each step computes.
        x: [steps, batch, inputs].
        weights: Weights of the operator.
        states: Indices of the inputs that are states.
        time_major: Whether the result has the steps first, too.
    """
    walked = run_sequence(o.c.bb, cell, x, weights, [o.state(at) for at in states])
    return _kept(o, walked, states, time_major=time_major)


def walk_steps_of_bytes(
    o: Operands,
    cell: Cell,
    x: relax.Expr,
    weights: Sequence[Sequence[int]],
    bias: npt.NDArray[Any],
    states: Sequence[int],
    *,
    time_major: bool,
) -> relax.Expr:
    """Emit all steps of a cell with 8-bit weights as one call, and update the states.

    Args:
        o: Operands of the operator.
        cell: Cell that each step computes.
        x: Data [steps, batch, inputs].
        weights: Indices of the inputs with the weights of the data and of the state; gates in the cell's order.
        bias: Biases, gates in the same order.
        states: Indices of the inputs that are states.
        time_major: Whether the result is [steps, batch, ...] instead of [batch, steps, ...].
    """
    bb = o.c.bb
    (of_data, scale), (of_state, scales) = map(o.bytes_of, weights)
    whole, step = (bb.emit(each) for each in symmetric(x))
    q = bb.emit(_R.astype(bb.emit(_R.astype(whole, "int8")), "int32"))
    total = bb.emit(_R.matmul(q, relax.const(of_data.astype(np.int32)), out_dtype="int32"))
    real = bb.emit(_R.multiply(bb.emit(_R.astype(total, "float32")), step))
    product = bb.emit(_R.add(bb.emit(_R.multiply(real, relax.const(scale))), relax.const(bias)))
    integers = Integers(of_state, scales, "symmetric")
    walked = run_sequence_of_integers(bb, cell, product, integers, [o.state(at) for at in states])
    return _kept(o, walked, states, time_major=time_major)


def _kept(o: Operands, walked: Walked, states: Sequence[int], *, time_major: bool) -> relax.Expr:
    """Update the states, and return the output of all steps."""
    for at, value in zip(states, walked.states, strict=True):
        o.keep(at, value)
    return steps_first(o.c, walked.y, time_major=time_major)


def steps_first(c: Any, x: relax.Expr, *, time_major: bool) -> relax.Expr:
    """Swap the first two axes, steps and batch, unless `time_major`: to steps-first for data, and back for a result."""
    return x if time_major else c.bb.emit(_R.permute_dims(x, [1, 0, 2]))
