# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers over whole sequences in Relax: one matrix product with the data, then one call for all steps.

    x [steps, batch, input]    →    call_tir(cell, x W + b, R, states)    [steps + states, batch, hidden]

`schedules.numerics.recurrent` defines the call for float weights, `recurrent_dynamic` that for integer weights, and
`recurrent_integer` that for integer data. The size of its code does not depend on the number of steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from schedules.numerics.recurrent import Cell, recurrent_routine
from schedules.numerics.recurrent_dynamic import Rounding, recurrent_dynamic_routine
from schedules.numerics.recurrent_integer import Constants, IntegerLstm, integer_lstm_routine
from schedules.numerics.routine import Routine

Array = npt.NDArray[Any]

_R = relax.op


@dataclass(frozen=True)
class Weights:
    """Constants of one direction in float32, with gates in the order of `schedules.numerics.recurrent`.

    Attributes:
        data: Weights of the product with the data, [input, gates * hidden].
        state: Weights of the product with the state, [hidden, gates * hidden].
        data_bias: Bias of the first product, [gates * hidden].
        state_bias: Bias of the second.
    """

    data: Array
    state: Array
    data_bias: Array
    state_bias: Array

    @property
    def hidden(self) -> int:
        """Number of hidden units."""
        return len(self.state)


@dataclass(frozen=True)
class Integers:
    """Integer weights of the product with the state; the state is quantised before each step.

    Attributes:
        weights: Integers minus zero points, [hidden, gates * hidden], gates in the order of
            `schedules.numerics.recurrent`.
        scale: Scale of each column, float32 [gates * hidden].
        rounding: How the state is quantised.
    """

    weights: npt.NDArray[np.integer[Any]]
    scale: Array
    rounding: Rounding


@dataclass(frozen=True)
class Walked:
    """Results of one direction of a recurrent layer.

    Attributes:
        y: The output of each step, [steps, batch, hidden].
        states: States after the last step, [batch, hidden] each.
    """

    y: relax.Expr
    states: tuple[relax.Expr, ...]


def run_sequence(
    builder: relax.BlockBuilder,
    cell: Cell,
    x: relax.Expr,
    weights: Weights,
    states: Sequence[relax.Expr | None],
    lengths: relax.Expr | None = None,
    peepholes: Array | None = None,
) -> Walked:
    """Emit one direction of a recurrent layer.

    Args:
        builder: Builder of the function.
        cell: Cell that each step computes.
        x: Data of static shape, [steps, batch, input], float32.
        weights: Constant weights and biases.
        states: Initial states, [batch, hidden] each; zeros for one that is not given.
        lengths: Lengths of the sequences, int32 [batch]; without them every step counts.
        peepholes: Weights of the cell in the input, output and forget gates, [3 * hidden], if the cell has any.
    """
    steps, batch = (int(dim) for dim in list(x.ty.shape)[:2])
    hidden, bias, late = weights.hidden, weights.data_bias + weights.state_bias, []
    if cell.linear_before_reset:
        bias[-hidden:] = weights.data_bias[-hidden:]
        late = [relax.const(weights.state_bias[-hidden:])]
    product = builder.emit(_R.matmul(x, relax.const(weights.data)))
    if bias.any():
        product = builder.emit(_R.add(product, relax.const(bias)))
    routine = recurrent_routine(cell, steps, batch, hidden, lengths=lengths is not None)
    held = [product, relax.const(weights.state)]
    others = [*late, *([] if peepholes is None else [relax.const(peepholes)])]
    return _walked(builder, cell, routine, held, states, [*others, *([] if lengths is None else [lengths])])


def run_sequence_of_integers(
    builder: relax.BlockBuilder,
    cell: Cell,
    product: relax.Expr,
    integers: Integers,
    states: Sequence[relax.Expr | None],
    lengths: relax.Expr | None = None,
) -> Walked:
    """Emit one direction of a recurrent layer with integer weights, given its product with the data.

    Args:
        builder: Builder of the Relax function.
        cell: Cell that each step computes; a GRU must not be linear before the reset.
        product: Product with the data, biases included, float32 [steps, batch, gates * hidden].
        integers: The weights of the product with the state.
        states: Initial states, [batch, hidden] each; zeros for one that is not given.
        lengths: Lengths of the sequences, int32 [batch]; without them every step counts.
    """
    steps, batch = (int(dim) for dim in list(product.ty.shape)[:2])
    sizes, wide = (steps, batch, len(integers.weights)), integers.weights
    # uint8 minus a zero point may need nine bits.
    narrow = wide.astype(np.int8 if (wide == wide.astype(np.int8)).all() else np.int16)
    routine = recurrent_dynamic_routine(
        cell, sizes, str(narrow.dtype), integers.rounding, lengths=lengths is not None
    )
    held = [product, relax.const(narrow, str(narrow.dtype)), relax.const(integers.scale)]
    return _walked(builder, cell, routine, held, states, [] if lengths is None else [lengths])


def _walked(
    builder: relax.BlockBuilder,
    cell: Cell,
    routine: Routine,
    held: Sequence[relax.Expr],
    states: Sequence[relax.Expr | None],
    others: Sequence[relax.Expr],
) -> Walked:
    """Emit a routine's call with `held` (products, weights), states and `others` as operands, and split its result."""
    steps, batch, width = (int(dim) for dim in held[0].ty.shape)
    hidden = width // cell.gates
    zeros = np.zeros((batch, hidden), np.float32)
    first = [relax.const(zeros) if state is None else state for state in states]
    operands = [*held, *first, *others]
    symbol = builder.add_func(routine.func, f"recurrent_{cell.kind}")
    out_type = relax.TensorType((steps + cell.states, batch, hidden), "float32")
    out = builder.emit(relax.call_tir(symbol, operands, out_type))
    y = builder.emit(_R.strided_slice(out, [0], [0], [steps]))
    ends = []
    for k in range(cell.states):
        last = builder.emit(_R.strided_slice(out, [0], [steps + k], [steps + k + 1]))
        ends.append(builder.emit(_R.reshape(last, (batch, hidden))))
    return Walked(y, tuple(ends))


def run_integer_lstm(
    builder: relax.BlockBuilder,
    lstm: IntegerLstm,
    x: relax.Expr,
    constants: Constants,
    states: Sequence[relax.Expr],
) -> Walked:
    """Emit an integer LSTM, given its product with the data; its results are int16.

    Args:
        builder: Builder of the Relax function.
        lstm: LSTM that each step computes.
        x: Product with the data, int32 [steps, batch, gates * hidden].
        constants: Weights and tables.
        states: Initial output [batch, outputs] and cell [batch, hidden], int16.
    """
    steps, batch, _ = (int(dim) for dim in x.ty.shape)
    outputs, hidden = (int(state.ty.shape[1]) for state in states)
    routine = integer_lstm_routine(lstm, (steps, batch, hidden), outputs)
    held = [relax.const(array, str(array.dtype)) for array in constants.arrays]
    symbol = builder.add_func(routine.func, "recurrent_integer_lstm")
    shapes = [(steps, batch, outputs), (batch, outputs), (batch, hidden)]
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    out_type = relax.TensorType((ends[-1],), "int16")
    out = builder.emit(relax.call_tir(symbol, [x, *held, *states], out_type))
    parts = []
    for begin, end, shape in zip([0, *ends], ends, shapes, strict=False):
        part = builder.emit(_R.strided_slice(out, [0], [begin], [end]))
        parts.append(builder.emit(_R.reshape(part, shape)))
    return Walked(parts[0], tuple(parts[1:]))
