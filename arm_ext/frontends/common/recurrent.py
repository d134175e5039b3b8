# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers over whole sequences in Relax: one product with the data, then one call that walks the steps.

    x [steps, batch, input]    →    call_tir(cell, x W + b, R, states)    [steps + states, batch, hidden]

`schedules.numerics.recurrent` defines the call. Its code does not grow with the steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from schedules.numerics.recurrent import Cell, recurrent_routine

Array = npt.NDArray[Any]

_R = relax.op


@dataclass(frozen=True)
class Weights:
    """The constants of one direction, float32, gates in the order of `schedules.numerics.recurrent`.

    Attributes:
        data: What the data are multiplied by, [input, gates * hidden].
        state: What the state is multiplied by, [hidden, gates * hidden].
        data_bias: Of the first product, [gates * hidden].
        state_bias: Of the second.
    """

    data: Array
    state: Array
    data_bias: Array
    state_bias: Array

    @property
    def hidden(self) -> int:
        """Units."""
        return len(self.state)


@dataclass(frozen=True)
class Walked:
    """What a direction gives.

    Attributes:
        y: The output of each step, [steps, batch, hidden].
        states: After the last step, [batch, hidden] each.
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
) -> Walked:
    """Emit one direction of a recurrent layer.

    Args:
        builder: Of the function.
        cell: What each step computes.
        x: Data of static shape, [steps, batch, input], float32.
        weights: Constants.
        states: At the beginning, [batch, hidden] each; zeros where there is none.
        lengths: Of the sequences, int32 [batch], if not all steps count.
    """
    steps, batch = (int(dim) for dim in list(x.ty.shape)[:2])
    hidden, bias, late = weights.hidden, weights.data_bias + weights.state_bias, []
    if cell.linear_before_reset:
        bias[-hidden:] = weights.data_bias[-hidden:]
        late = [relax.const(weights.state_bias[-hidden:])]
    product = builder.emit(_R.matmul(x, relax.const(weights.data)))
    if bias.any():
        product = builder.emit(_R.add(product, relax.const(bias)))
    zeros = np.zeros((batch, hidden), np.float32)
    first = [relax.const(zeros) if state is None else state for state in states]
    operands = [product, relax.const(weights.state), *first, *late, *([] if lengths is None else [lengths])]
    routine = recurrent_routine(cell, steps, batch, hidden, lengths=lengths is not None)
    symbol = builder.add_func(routine.func, f"recurrent_{cell.kind}")
    out_type = relax.TensorType((steps + cell.states, batch, hidden), "float32")
    out = builder.emit(relax.call_tir(symbol, operands, out_type))
    y = builder.emit(_R.strided_slice(out, [0], [0], [steps]))
    ends = []
    for k in range(cell.states):
        last = builder.emit(_R.strided_slice(out, [0], [steps + k], [steps + k + 1]))
        ends.append(builder.emit(_R.reshape(last, (batch, hidden))))
    return Walked(y, tuple(ends))
