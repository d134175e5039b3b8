# SPDX-License-Identifier: Apache-2.0
"""Conversion of LSTM, GRU and RNN nodes to one call for all steps, directly from ONNX's nodes.

It takes nodes with constant float32 weights, biases and peepholes. `recurrent` expands all others.

`recurrent` replaces a DynamicQuantizeLSTM by an LSTM with the attribute `OF_INTEGERS`. Its inputs have other meanings:
X is the product with the data of all directions, biases included, [steps, batch, directions * 4 * hidden]; R are
integer weights [directions, hidden, 4 * hidden], and W are the scales of R's columns.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper
from tvm import relax
from tvm.ir import GenericConst

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import up_to
from arm_ext.frontends.onnx.recurrent_activations import activations_of
from arm_ext.frontends.ops.recurrent import (
    Array,
    Integers,
    Walked,
    Weights,
    run_sequence,
    run_sequence_of_integers,
)
from schedules.numerics.recurrent import Activation, Cell

BACKWARD = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Direction of a node → for each of its directions, whether it begins at the last step."""

DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""The activations of a node that names none."""

_ACTIVATIONS = {
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
    "HardSigmoid": "hard_sigmoid",
    "LeakyRelu": "leaky_relu",
    "ThresholdedRelu": "thresholded_relu",
    "Softsign": "softsign",
    "Elu": "elu",
    "Affine": "affine",
    "ScaledTanh": "scaled_tanh",
    "Softplus": "softplus",
}

OF_INTEGERS = "of_integers"

_PEEPHOLES = 7
"""Index of the input P of an LSTM."""

_R = relax.op


def is_loop(e: Expansion) -> bool:
    """Whether the current node of the expansion stays unchanged, because `sequences` converts it to a loop.

    Raises:
        ModelError: The node has an unknown activation, or sequences longer than the number of steps, or a type or shape
            of it is not known.
    """
    if of_integers(e.node):
        return True
    x, w, r, b, lengths, _, *others = e.inputs("X W R B? lengths? h? c? P?")
    cells_of(e.node)  # an unknown activation is an error of this node
    constants = [e.value(value) for value in (w, r, b, others[1]) if value]
    if any(value is None or value.dtype != np.float32 for value in constants):
        return False
    if lengths and e.value(lengths) is not None:
        up_to(e, lengths, e.dims(x)[_steps_axis(e.node)])
    return 0 not in (*e.dims(x), *e.dims(r)) and e.dtype(x) == np.float32


def of_integers(node: onnx.NodeProto) -> bool:
    """Whether an LSTM was made from a DynamicQuantizeLSTM; the meaning of its inputs then differs from ONNX's."""
    return any(attribute.name == OF_INTEGERS for attribute in node.attribute)


def is_loop_of_integers(e: Expansion) -> bool:
    """Whether the DynamicQuantizeLSTM of an expansion can become an LSTM with integer weights.

    Raises:
        ModelError: The node has an unknown activation.
    """
    x, w, r, b, _, _, _, peepholes, *scales = e.inputs(
        "X W R B? lengths? h? c? P? W_scale W_zero_point R_scale R_zero_point"
    )
    cells_of(e.node)  # an unknown activation is an error of this node
    if peepholes or e.attribute("input_forget", 0):
        return False
    constants = [e.value(value) for value in (w, r, b, *scales) if value]
    return all(value is not None for value in constants) and 0 not in (*e.dims(x), *e.dims(r))


def _steps_axis(node: onnx.NodeProto) -> int:
    return int(any(a.name == "layout" and a.i for a in node.attribute))


def cells_of(node: onnx.NodeProto) -> tuple[Cell, ...]:
    """Return the cell of each direction: its kind, activations and attributes.

    Raises:
        ModelError: The node has an unknown activation.
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    ways = BACKWARD[given.get("direction", b"forward").decode()]
    kind = node.op_type.removeprefix("DynamicQuantize")
    cells = []
    for backward, chosen in zip(ways, activations_of(node, DEFAULTS[kind], len(ways)), strict=True):
        functions = (Activation(_ACTIVATIONS[each.name], tuple(each.numbers.values())) for each in chosen)
        linear, clip = bool(given.get("linear_before_reset", 0)), float(given.get("clip", 0.0))
        peepholes = kind == "LSTM" and any(node.input[_PEEPHOLES : _PEEPHOLES + 1])
        coupled = kind == "LSTM" and bool(given.get("input_forget", 0))
        cells.append(Cell(kind.lower(), tuple(functions), backward, linear, clip, peepholes, coupled))
    return tuple(cells)


def sequences(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    """Emit a node for which `is_loop` holds, and return its outputs.

    Args:
        builder: Builder of the function.
        node: An LSTM, GRU or RNN.
        inputs: Inputs of the node.
    """
    x, w, r, b, lengths, *initial, p = cast("list[Any]", [*inputs, *[None] * 8][:8])
    cells = cells_of(node)
    batch_first = bool(_steps_axis(node))
    initial = initial[: cells[0].states]
    if batch_first:
        x, *initial = (
            None if v is None else builder.emit(_R.permute_dims(v, (1, 0, 2))) for v in (x, *initial)
        )
    if lengths is not None and not isinstance(lengths, GenericConst):
        lengths = _checked(builder, lengths, int(x.ty.shape[0]))
    ways = []
    for d, cell in enumerate(cells):
        states = [None if state is None else _direction(builder, state, d, len(cells)) for state in initial]
        if of_integers(node):
            product, integers = _integers(builder, x, d, w, r)
            ways.append(run_sequence_of_integers(builder, cell, product, integers, states, lengths))
        else:
            peepholes = None if p is None or not cell.peepholes else np.ascontiguousarray(_array(p)[d])
            weights = _weights(cell, d, w, r, b)
            ways.append(run_sequence(builder, cell, x, weights, states, lengths, peepholes))
    return relax.Tuple(_outputs(builder, ways, batch_first=batch_first))


def _checked(builder: relax.BlockBuilder, lengths: relax.Expr, steps: int) -> relax.Expr:
    """Return the lengths of sequences; lengths outside of 0 to `steps` are reported as indices out of bounds."""
    dtype = str(lengths.ty.dtype)
    below = builder.emit(_R.less(lengths, relax.const(0, dtype)))
    index = builder.emit(_R.where(below, relax.const(steps + 1, dtype), lengths))
    return builder.emit(_R.take(relax.const(np.arange(steps + 1, dtype=dtype)), index, axis=0))


def _weights(cell: Cell, d: int, w: relax.Expr, r: relax.Expr, b: relax.Expr | None) -> Weights:
    data, state = (_array(value)[d].T for value in (w, r))
    both = np.zeros((2, data.shape[1]), np.float32) if b is None else _array(b)[d].reshape(2, -1)
    return Weights(np.ascontiguousarray(data), np.ascontiguousarray(state), both[0], both[1])


def _integers(
    builder: relax.BlockBuilder, x: relax.Expr, d: int, scale: relax.Expr, r: relax.Expr
) -> tuple[relax.Expr, Integers]:
    """Return direction `d`'s product with the data, and its integer weights for the state, gates in ONNX's order."""
    weights, scales = _array(r), _array(scale)
    product = x
    if len(weights) > 1:
        width = scales.shape[-1]
        product = builder.emit(_R.strided_slice(x, [2], [d * width], [(d + 1) * width]))
    return product, Integers(weights[d], scales[d], "uint8")


def _array(value: relax.Expr) -> Array:
    array: Array = value.value.numpy()
    return array


def _direction(builder: relax.BlockBuilder, state: relax.Expr, d: int, directions: int) -> relax.Expr:
    """Return [batch, hidden], the part of direction `d`, of [directions, batch, hidden]."""
    if directions > 1:
        state = builder.emit(_R.strided_slice(state, [0], [d], [d + 1]))
    return builder.emit(_R.squeeze(state, [0]))


def _outputs(builder: relax.BlockBuilder, ways: Sequence[Walked], *, batch_first: bool) -> list[relax.Expr]:
    """Return Y [steps, directions, batch, hidden] and the last states [directions, batch, hidden].

    With `batch_first`, the batch is the first axis of each.
    """
    states = zip(*(way.states for way in ways), strict=True)
    found = [_stacked(builder, [way.y for way in ways], 1)]
    found += [_stacked(builder, list(parts), 0) for parts in states]
    if not batch_first:
        return found
    orders = [(2, 0, 1, 3), *[(1, 0, 2)] * (len(found) - 1)]
    return [builder.emit(_R.permute_dims(v, axes)) for v, axes in zip(found, orders, strict=True)]


def _stacked(builder: relax.BlockBuilder, parts: Sequence[relax.Expr], axis: int) -> relax.Expr:
    wide = [builder.emit(_R.expand_dims(part, [axis])) for part in parts]
    return wide[0] if len(wide) == 1 else builder.emit(_R.concat(wide, axis))
