# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN over a sequence; the products of data and weights are computed before, for all steps.

Let a = h R. Columns of x and R are in blocks, one per gate, in the order below. s and t are the first two activations,
u is the last.

    lstm   i, o, f = s(x + a) each; g = t(x + a); c' = f c + i g; h' = o u(c')
           with peepholes i, f = s(x + a + p c) and o = s(x + a + p c'); with coupled gates f = 1 - i
    gru    z, r = s(x + a) each; n = t(x + (r h) R), or with linear_before_reset t(x + r (a + b)); h' = n + z (h - n)
    rnn    h' = s(x + a)

The result is one tensor [steps + states, batch, hidden]: h of each step at the index of the step, then the last h, and
for an LSTM the last c. Steps past the length of a sequence do not change its states, and output zeros. Source: ONNX
operator definitions LSTM-14, GRU-14, RNN-14.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.routine import Routine, routine_of_loops
from schedules.tir.emit import TensorSpec, i64

Array = npt.NDArray[Any]

Product = Callable[[Array, int], Array]
"""Function of a state [batch, hidden] and a gate's index to the product with the gate's weights, [batch, hidden]."""

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Gates by kind; of an LSTM input, output, forget, cell, and of a GRU update, reset, new."""

ACTIVATIONS = {"lstm": 3, "gru": 2, "rnn": 1}
"""The number of activations of a layer, by its kind."""

INTEGER_LSTM = "integer.lstm"
"""Value of the attribute "numerics" of what `recurrent_integer` defines."""

NAMES = (*(f"{numerics}.{kind}" for numerics in ("float", "dynamic") for kind in GATES), INTEGER_LSTM)
"""Values of a routine's attribute "numerics"; `recurrent_dynamic` defines the dynamic ones."""

_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "leaky_relu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "affine": lambda x, alpha, beta: alpha * x + beta,
    "scaled_tanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "softplus": lambda x: np.logaddexp(x, 0),
}

_EMITTED: dict[str, Callable[..., ir.Expr]] = {
    "sigmoid": tirx.sigmoid,
    "tanh": tirx.tanh,
    "relu": lambda x: tirx.max(x, tirx.FloatImm("float32", 0.0)),
    "hard_sigmoid": lambda x, alpha, beta: tirx.max(
        tirx.min(
            x * tirx.FloatImm("float32", alpha) + tirx.FloatImm("float32", beta),
            tirx.FloatImm("float32", 1.0),
        ),
        tirx.FloatImm("float32", 0.0),
    ),
    "leaky_relu": lambda x, alpha: tirx.Select(x < 0, x * tirx.FloatImm("float32", alpha), x),
    "thresholded_relu": lambda x, alpha: tirx.Select(
        x > tirx.FloatImm("float32", alpha), x, tirx.FloatImm("float32", 0.0)
    ),
    "softsign": lambda x: x / (tirx.FloatImm("float32", 1.0) + tirx.abs(x)),
    "elu": lambda x, alpha: tirx.Select(
        x < 0, tirx.FloatImm("float32", alpha) * (tirx.exp(x) - tirx.FloatImm("float32", 1.0)), x
    ),
    "affine": lambda x, alpha, beta: x * tirx.FloatImm("float32", alpha) + tirx.FloatImm("float32", beta),
    "scaled_tanh": lambda x, alpha, beta: (
        tirx.FloatImm("float32", alpha) * tirx.tanh(x * tirx.FloatImm("float32", beta))
    ),
    "softplus": lambda x: tirx.max(x, tirx.FloatImm("float32", 0.0)) + tirx.log1p(tirx.exp(-tirx.abs(x))),
}


@dataclass(frozen=True)
class Activation:
    """An activation function with its parameters.

    Attributes:
        name: Name of the function, one of `_FUNCTIONS`.
        numbers: The parameter alpha, or alpha and beta.
    """

    name: str
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in _FUNCTIONS:
            raise ValueError(f"{self.name} is none of {', '.join(_FUNCTIONS)}")


@dataclass(frozen=True)
class Cell:
    """A recurrent cell: the computation of each step, and the order of the steps.

    Attributes:
        kind: "lstm", "gru" or "rnn".
        activations: Names of the activations, as many as `ACTIVATIONS` says.
        reverse: Whether steps are computed from the last to the first.
        linear_before_reset: Whether a GRU multiplies by the reset gate after the product with R, instead of before.
        clip: Limit of the magnitude of the activations' arguments; 0 for no limit.
        peepholes: Whether an LSTM's input, output and forget gates depend on the cell state.
        coupled: Whether an LSTM's forget gate is 1 minus its input gate.
    """

    kind: str
    activations: tuple[Activation, ...]
    reverse: bool = False
    linear_before_reset: bool = False
    clip: float = 0.0
    peepholes: bool = False
    coupled: bool = False

    def __post_init__(self) -> None:
        if len(self.activations) != ACTIVATIONS[self.kind]:
            raise ValueError(f"a {self.kind} has {ACTIVATIONS[self.kind]} activations")

    @property
    def gates(self) -> int:
        """Number of gates."""
        return GATES[self.kind]

    @property
    def states(self) -> int:
        """Number of state tensors."""
        return 2 if self.kind == "lstm" else 1

    @property
    def attributes(self) -> dict[str, int | float | str]:
        """The cell as attributes of a routine; `of` parses them."""
        texts = (" ".join([a.name, *map(repr, a.numbers)]) for a in self.activations)
        return {
            "activations": ", ".join(texts),
            "reverse": int(self.reverse),
            "linear_before_reset": int(self.linear_before_reset),
            "clip": float(self.clip),
            "peepholes": int(self.peepholes),
            "coupled": int(self.coupled),
        }

    @classmethod
    def of(cls, kind: str, attributes: Mapping[str, str]) -> "Cell":
        """Return the cell that attributes of a workload describe."""
        parts = [text.split() for text in attributes["activations"].split(", ")]
        return cls(
            kind,
            tuple(Activation(name, tuple(map(float, numbers))) for name, *numbers in parts),
            attributes["reverse"] != "0",
            attributes["linear_before_reset"] != "0",
            float(attributes["clip"]),
            attributes["peepholes"] != "0",
            attributes["coupled"] != "0",
        )


def sequence(
    cell: Cell,
    x: Array,
    r: Array,
    states: tuple[Array, ...],
    bias: Array | None = None,
    lengths: Array | None = None,
    product: Product | None = None,
    peepholes: Array | None = None,
) -> Array:
    """Compute the recurrent layer by the module's definition, in the dtype of the data.

    Args:
        cell: Cell that each step computes.
        x: Products of data and weights, [steps, batch, gates * hidden].
        r: Weights that multiply the state, [hidden, gates * hidden].
        states: Initial h and, for an LSTM, c; each [batch, hidden].
        bias: Bias of the last gate's recurrent product, [hidden], if it is linear before the reset.
        lengths: Lengths of the sequences, [batch]; None if all have all steps.
        product: Computes the product of the state; by default with r.
        peepholes: Weights of the cell state in the input, output and forget gates, [3 * hidden]; None for no peepholes.
    """
    by_gate = np.split(r, cell.gates, -1)
    of_state: Product = (lambda h, k: h @ by_gate[k]) if product is None else product
    first, *more = (_given(cell, activation) for activation in cell.activations)
    hidden, outputs = len(r), np.zeros((len(x), *states[0].shape), x.dtype)
    for t in reversed(range(len(x))) if cell.reverse else range(len(x)):
        h, cut = states[0], (len(r) * k for k in range(1, cell.gates))
        xs = np.split(x[t], list(cut), -1)
        if cell.kind == "lstm":
            to_i, to_o, to_f = (0, 0, 0) if peepholes is None else np.split(peepholes, 3)
            sums, old = [xs[k] + of_state(h, k) for k in range(4)], states[1]
            i = first(sums[0] + to_i * old)
            f = 1 - i if cell.coupled else first(sums[2] + to_f * old)
            c = f * old + i * more[0](sums[3])
            after: tuple[Array, ...] = (first(sums[1] + to_o * c) * more[1](c), c)
        elif cell.kind == "gru":
            z, reset = (first(xs[k] + of_state(h, k)) for k in range(2))
            late = cell.linear_before_reset
            inner = reset * (of_state(h, 2) + bias) if late else of_state(reset * h, 2)
            new = more[0](xs[2] + inner)
            after = (new + z * (h - new),)
        else:
            after = (first(xs[0] + of_state(h, 0)),)
        goes_on = np.ones((len(h), 1), bool) if lengths is None else (t < lengths).reshape(-1, 1)
        outputs[t] = np.where(goes_on, after[0], 0)
        states = tuple(np.where(goes_on, *pair) for pair in zip(after, states, strict=True))
    return np.concatenate([outputs, *(state.reshape(1, -1, hidden) for state in states)])


def _given(cell: Cell, activation: Activation) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        x = np.clip(x, -cell.clip, cell.clip) if cell.clip else x
        return _FUNCTIONS[activation.name](x, *activation.numbers)

    return function


def recurrent_routine(cell: Cell, steps: int, batch: int, hidden: int, *, lengths: bool) -> Routine:
    """Return a routine that computes `sequence` in float32; `SequenceEmitter` emits its loops.

    Its arguments are x, r, the states, the bias if `linear_before_reset`, the peepholes and the int32 lengths, if any.
    """
    sizes, width = (steps, batch, hidden), cell.gates * hidden
    weights: list[TensorSpec] = [((steps, batch, width), "float32"), ((hidden, width), "float32")]
    return routine_of_loops(
        f"float.{cell.kind}",
        [*weights, *state_arguments(cell, sizes, lengths=lengths)],
        lambda buffers: SequenceEmitter(cell, sizes, buffers).emit(lengths=lengths),
        **cell.attributes,
    )


def state_arguments(cell: Cell, sizes: tuple[int, int, int], *, lengths: bool) -> list[TensorSpec]:
    """Return (shape, dtype) of a routine's arguments after the weights: states, bias, peepholes, lengths, output.

    Args:
        cell: Cell that each step computes.
        sizes: Numbers of steps, of sequences and of hidden units.
        lengths: Whether sequences have lengths.
    """
    steps, batch, hidden = sizes
    arguments: list[TensorSpec] = [((batch, hidden), "float32")] * cell.states
    arguments += [((hidden,), "float32")] * cell.linear_before_reset
    arguments += [((3 * hidden,), "float32")] * cell.peepholes + [((batch,), "int32")] * lengths
    return [*arguments, ((steps + cell.states, batch, hidden), "float32")]


class SequenceEmitter:
    """Emits the loops of `sequence` step by step; the states are stored in the last rows of the output."""

    def __init__(self, cell: Cell, sizes: tuple[int, int, int], buffers: list[tirx.Buffer]) -> None:
        self.cell = cell
        self.steps, self.batch, self.hidden = sizes
        self.x, self.r, *rest, self.output = buffers
        self.first, self.rest = rest[: cell.states], rest[cell.states :]
        # Buffers of the sums of each gate in a step, and of the state times the reset gate.
        self.sums = T.alloc_buffer((self.batch, cell.gates * self.hidden), "float32")
        self.reset = T.alloc_buffer((self.batch, self.hidden), "float32")

    def emit(self, *, lengths: bool) -> None:
        """Emit the initial states and the loop over the steps."""
        cell = self.cell
        late = cell.kind == "gru" and not cell.linear_before_reset
        for k, state in enumerate(self.first):
            with self.elements() as (b, u):
                T.buffer_store(self.output, state[b, u], self.at(k, b, u))
        with T.serial(i64(0), i64(self.steps)) as step:
            t = T.Bind(i64(self.steps - 1) - step if cell.reverse else step)
            self.product(0, cell.gates - late, lambda b, k: self.state(0, b, k))
            if late:
                with self.elements() as (b, u):
                    self.put_reset(t, b, u)
                self.product(cell.gates - 1, 1, lambda b, k: self.reset[b, k])
            with self.elements() as (b, u):
                self.put(t, b, u, self.rest[-1] if lengths else None)

    def at(self, state: int, b: ir.Expr, u: ir.Expr) -> list[ir.Expr]:
        """Return the indices of an element of a state."""
        return [i64(self.steps + state), b, u]

    def state(self, state: int, b: ir.Expr, u: ir.Expr) -> ir.Expr:
        """Emit the load of an element of a state."""
        return self.output[tuple(self.at(state, b, u))]

    @contextmanager
    def elements(self) -> Iterator[tuple[ir.Expr, ir.Expr]]:
        """Open loops over the elements of a state; yield (sequence, unit)."""
        with T.serial(i64(0), i64(self.batch)) as b, T.serial(i64(0), i64(self.hidden)) as u:
            yield b, u

    def product(self, gate: int, gates: int, source: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
        """Emit the sums of `gates` gates from gate `gate` on: products of `source` and the weights r."""
        first = i64(gate * self.hidden)
        with T.serial(i64(0), i64(self.batch)) as b, T.serial(i64(0), i64(gates * self.hidden)) as column:
            T.buffer_store(self.sums, tirx.FloatImm("float32", 0.0), [b, first + column])
            with T.serial(i64(0), i64(self.hidden)) as k:
                total = self.sums[b, first + column] + source(b, k) * self.r[k, first + column]
                T.buffer_store(self.sums, total, [b, first + column])

    def put_reset(self, t: ir.Expr, b: ir.Expr, u: ir.Expr) -> None:
        """Emit one element of the state times the reset gate."""
        T.buffer_store(self.reset, self.gate(0, self.total(t, b, u, 1)) * self.state(0, b, u), [b, u])

    def put(self, t: ir.Expr, b: ir.Expr, u: ir.Expr, lengths: tirx.Buffer | None) -> None:
        """Emit the stores of one element of all states after a step."""
        new, old = self.new(t, b, u), [T.Bind(self.state(k, b, u)) for k in range(self.cell.states)]
        out = new[0]
        if lengths is not None:
            goes_on = t < tirx.Cast("int64", lengths[b])
            out = T.Bind(tirx.Select(goes_on, out, tirx.FloatImm("float32", 0.0)))
            new = [T.Bind(tirx.Select(goes_on, *pair)) for pair in zip(new, old, strict=True)]
        T.buffer_store(self.output, out, [t, b, u])
        for k, value in enumerate(new):
            T.buffer_store(self.output, value, self.at(k, b, u))

    def new(self, t: ir.Expr, b: ir.Expr, u: ir.Expr) -> list[ir.Expr]:
        """Return one element of each state after a step."""
        if self.cell.kind == "lstm":
            old = self.state(1, b, u)
            i = self.gate(0, self.total(t, b, u, 0) + self.seen(0, u, old))
            f = tirx.FloatImm("float32", 1.0) - i
            if not self.cell.coupled:
                f = self.gate(0, self.total(t, b, u, 2) + self.seen(2, u, old))
            c = T.Bind(f * old + i * self.gate(1, self.total(t, b, u, 3)))
            return [T.Bind(self.gate(0, self.total(t, b, u, 1) + self.seen(1, u, c)) * self.gate(2, c)), c]
        if self.cell.kind == "gru":
            z, column = self.gate(0, self.total(t, b, u, 0)), i64(2 * self.hidden) + u
            inner = self.sums[b, column]
            if self.cell.linear_before_reset:
                inner = self.gate(0, self.total(t, b, u, 1)) * (inner + self.rest[0][u])
            new = self.gate(1, self.x[t, b, column] + inner)
            return [T.Bind(new + z * (self.state(0, b, u) - new))]
        return [self.gate(0, self.total(t, b, u, 0))]

    def total(self, t: ir.Expr, b: ir.Expr, u: ir.Expr, gate: int) -> ir.Expr:
        """Return the argument of a gate's activation: product with the state plus product with the data."""
        column = i64(gate * self.hidden) + u
        return self.x[t, b, column] + self.sums[b, column]

    def seen(self, gate: int, u: ir.Expr, cell: ir.Expr) -> ir.Expr:
        """Return cell state * peephole weight, which is added to a gate's argument; 0 without peepholes."""
        if not self.cell.peepholes:
            return tirx.FloatImm("float32", 0.0)
        return self.rest[0][i64(gate * self.hidden) + u] * cell

    def gate(self, number: int, x: ir.Expr) -> ir.Var:
        """Emit activation `number` of the cell, with its argument clipped if the cell has a limit."""
        activation, limit = self.cell.activations[number], tirx.FloatImm("float32", self.cell.clip)
        if self.cell.clip:
            x = tirx.max(tirx.min(x, limit), -limit)
        return T.Bind(_EMITTED[activation.name](T.Bind(x), *activation.numbers))
