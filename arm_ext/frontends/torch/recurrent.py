# SPDX-License-Identifier: Apache-2.0
"""torch's LSTM, GRU and RNN as loops, before torch decomposes them into the equations of each step.

Their weights are parameters in float32, none of them a projection, and the length of the sequence is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.export import ExportedProgram
from tvm import relax

from arm_ext.frontends.ops.recurrent import Array, Walked, Weights, run_sequence
from schedules.numerics.recurrent import Activation, Cell

_R = relax.op

_SIGMOID, _TANH, _RELU = (Activation(name) for name in ("sigmoid", "tanh", "relu"))


@dataclass(frozen=True)
class _Kind:
    """A recurrent operator of torch.

    Attributes:
        kind: Kind of the cell.
        activations: Activations of the cell.
        order: Position of each of the cell's gates in torch's order.
    """

    kind: str
    activations: tuple[Activation, ...]
    order: tuple[int, ...]

    def cell(self, *, reverse: bool) -> Cell:
        """Return the cell of one direction."""
        return Cell(self.kind, self.activations, reverse, linear_before_reset=self.kind == "gru")


_ARGUMENTS = 9
"""Number of positional arguments of an operator, as torch's modules call it."""

_ATEN = torch.ops.aten

_KINDS = {
    _ATEN.lstm.input: _Kind("lstm", (_SIGMOID, _TANH, _TANH), (0, 3, 1, 2)),
    _ATEN.gru.input: _Kind("gru", (_SIGMOID, _TANH), (1, 0, 2)),
    _ATEN.rnn_tanh.input: _Kind("rnn", (_TANH,), (0,)),
    _ATEN.rnn_relu.input: _Kind("rnn", (_RELU,), (0,)),
}

NAMES = tuple(operator.__name__ for operator in _KINDS)
"""The operators that `recurrent` converts."""


def loops_of(program: ExportedProgram) -> list[Any]:
    """Return the recurrent operators whose calls in the program can all be imported as loops."""
    calls: dict[Any, list[bool]] = {}
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if node.target in _KINDS:
                    # In a branch, the weights are operands and not constants.
                    is_loop = module is program.graph_module and _is_loop(program, node)
                    calls.setdefault(node.target, []).append(is_loop)
    return [operator for operator, fit in calls.items() if all(fit)]


def _is_loop(program: ExportedProgram, node: torch.fx.Node) -> bool:
    if len(node.args) != _ARGUMENTS:
        return False
    x, _, params, has_biases, layers, dropout, train, both, _ = cast("Any", node.args)
    value, weights = x.meta["val"], [_parameter(program, each) for each in params]
    known = all(isinstance(size, int) and size for size in value.shape)
    whole = len(weights) == layers * (1 + both) * (4 if has_biases else 2)
    floats = all(weight is not None and weight.dtype == torch.float32 for weight in weights)
    return known and whole and floats and value.dtype == torch.float32 and not (train and dropout)


def _parameter(program: ExportedProgram, node: Any) -> torch.Tensor | None:
    name = program.graph_signature.inputs_to_parameters.get(node.name)
    return None if name is None else program.state_dict[name]


def recurrent(importer: Any, node: torch.fx.Node) -> list[relax.Expr]:
    """Emit all layers and directions; returns the outputs and the last states.

    Args:
        importer: The `Translator`.
        node: A call of one of `loops_of`.
    """
    builder, kind = importer.block_builder, _KINDS[node.target]  # type: ignore[index]
    x, states, _, has_biases, layers, _, _, both, batch_first = importer.retrieve_args(node)
    states = list(states) if isinstance(states, list | tuple) else [states]
    params = [_values(importer, each) for each in cast("Any", node.args[2])]
    weights = _weights(kind, params, 4 if has_biases else 2)
    if batch_first:
        x = builder.emit(_R.permute_dims(x, (1, 0, 2)))
    ends: list[Walked] = []
    for _ in range(layers):
        ways = []
        for backward in (False, True)[: 1 + both]:
            place = len(ends)
            first = [_part(builder, state, place) for state in states]
            ways.append(run_sequence(builder, kind.cell(reverse=backward), x, next(weights), first))
            ends.append(ways[-1])
        x = builder.emit(_R.concat([way.y for way in ways], -1)) if both else ways[0].y
    y = builder.emit(_R.permute_dims(x, (1, 0, 2))) if batch_first else x
    last = zip(*(end.states for end in ends), strict=True)
    return [y, *(builder.emit(_R.stack(list(parts), 0)) for parts in last)]


def _values(importer: Any, node: Any) -> Array:
    parameter = _parameter(importer.exported, node)
    assert parameter is not None  # see `loops_of`
    return parameter.detach().numpy()


def _weights(kind: _Kind, params: Sequence[Array], count: int) -> Iterator[Weights]:
    """Yield the weights of each direction of each layer; `count` parameters belong to one direction."""

    def ordered(value: Array) -> Array:
        parts = np.split(value, len(kind.order))
        return np.concatenate([parts[gate] for gate in kind.order])

    for at in range(0, len(params), count):
        data, state, *biases = (ordered(value) for value in params[at : at + count])
        data_bias, state_bias = biases or [np.zeros(len(data), np.float32)] * 2
        yield Weights(np.ascontiguousarray(data.T), np.ascontiguousarray(state.T), data_bias, state_bias)


def _part(builder: relax.BlockBuilder, state: relax.Expr, place: int) -> relax.Expr:
    """Return [batch, hidden], the part of one direction, of [layers * directions, batch, hidden]."""
    if int(state.ty.shape[0]) > 1:
        state = builder.emit(_R.strided_slice(state, [0], [place], [place + 1]))
    return builder.emit(_R.squeeze(state, [0]))
