# SPDX-License-Identifier: Apache-2.0
"""Operators that run other graphs of the model.

WHILE(x)                 a short loop with a known number of rounds is unrolled, others stay loops
IF(c, x)                 cheap branches are both computed, of which c chooses; of others one is run
STABLEHLO_COMPOSITE(x)   the graph that it is made of, inlined
CALL(x)                  likewise

What a graph assigns to a variable is one more result of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from tvm import relax
from tvm.ir import Constant, Expr, StringImm, TupleGetItem

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.control_flow import Region
from arm_ext.frontends.common.limits import MOST_UNROLLED
from arm_ext.frontends.tflite.codes import operator_name
from arm_ext.frontends.tflite.graphs import COMPOSITE, called
from arm_ext.frontends.tflite.operands import Convert
from arm_ext.frontends.tflite.resources import assigned, handles

# Operators that are never computed for a branch that is not taken: they are expensive, or may not terminate.
_HEAVY = (
    "BATCH_MATMUL",
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "CONV_2D",
    "CONV_3D",
    "CONV_3D_TRANSPOSE",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "SVDF",
    "TRANSPOSE_CONV",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
    "WHILE",
)


@dataclass(frozen=True)
class _Runs:
    """The graphs that an operator runs, their inputs, and the variables that they use and assign.

    Attributes:
        c: The converter of the operator's graph.
        graphs: Numbers of the graphs.
        inputs: Values of the graphs' inputs, handles of variables among them.
        used: Variables that the graphs use.
        changed: Those that they assign.
    """

    c: Any
    graphs: tuple[int, ...]
    inputs: list[Expr]
    used: list[str]
    changed: list[str]

    @classmethod
    def of(cls, c: Any, graphs: tuple[int, ...], inputs: list[Expr]) -> "_Runs":
        """Find the variables that the graphs use and assign.

        Raises:
            ModelError: One of them assigns a variable that has no value yet.
        """
        reached = {number: c.whole.operators[number] for number in _reached(c, graphs)}
        given = [value.value for value in inputs if isinstance(value, StringImm)]
        names = dict.fromkeys([*given, *handles(c.whole.model, reached)])
        found = assigned(c.whole.model, reached)
        changed = [name for name in names if name in found or "" in found]
        if new := [name for name in changed if name not in c.whole.variables]:
            raise ModelError(
                f"a graph that it runs assigns the variable '{new[0]}', which has no initial value"
            )
        return cls(c, graphs, inputs, [name for name in names if name in c.whole.variables], changed)

    def run(
        self,
        graph: int,
        inputs: Sequence[Expr],
        variables: Sequence[Expr],
        builder: relax.BlockBuilder | None = None,
    ) -> tuple[list[Expr], list[Expr]]:
        """Inline a graph; return its outputs and the values of the used variables after it.

        Args:
            graph: Number of the graph.
            inputs: Values of its inputs.
            variables: Values of the used variables.
            builder: Builder to emit operators in, by default the converter's.
        """
        whole, outer = self.c.whole, self.c.whole.variables
        whole.variables = outer | dict(zip(self.used, variables, strict=True))
        outputs = self.c.run(graph, inputs, builder)
        after = [whole.variables[name] for name in self.used]
        whole.variables = outer
        return outputs, after

    def held(self) -> list[Expr]:
        """Return the values of the used variables before the operator."""
        return [self.c.whole.variables[name] for name in self.used]

    def after(self, variables: Sequence[Expr]) -> None:
        """Set the values of the used variables after the operator."""
        self.c.whole.variables.update(zip(self.used, variables, strict=True))


def _reached(c: Any, graphs: Sequence[int]) -> list[int]:
    """Return the numbers of the given graphs and of all graphs that they run."""
    found = list(dict.fromkeys(graphs))
    for number in found:
        for op in c.whole.operators[number].values():
            found += [other for other in called(op, operator_name(c.whole.model, op)) if other not in found]
    return found


def _operators(c: Any, graphs: Sequence[int]) -> Iterator[str]:
    """Yield the names of the operators in the given graphs and in all graphs that they run."""
    for number in _reached(c, graphs):
        yield from (operator_name(c.whole.model, op) for op in c.whole.operators[number].values())


def _inputs(c: Any, op: Any) -> list[Expr]:
    return [c.value(int(number)) for number in c._indices_or_empty(op.InputsAsNumpy())]


def _result(values: list[Expr]) -> Any:
    return values[0] if len(values) == 1 else values


def _fields(c: Any, value: Expr) -> list[Expr]:
    """Bind a call; return the fields of its tuple, or its only result."""
    value = c.bb.emit(value)
    if not isinstance(value.ty, relax.TupleType):
        return [value]
    return [c.bb.emit(TupleGetItem(value, k)) for k in range(len(value.ty.fields))]


def _while(c: Any, op: Any) -> Any:
    runs = _Runs.of(c, called(op, "WHILE"), _inputs(c, op))
    before = c.whole.converted
    found = _unrolled(runs)
    if found is not None:
        return _result(found)
    c.whole.converted = before
    return _result(_loop(runs))


def _unrolled(runs: _Runs) -> list[Expr] | None:
    """Return the values after a short loop whose number of iterations is constant; None for other loops."""
    condition, body = runs.graphs
    size = sum(1 for _ in _operators(runs.c, runs.graphs))
    state, variables = runs.inputs, runs.held()
    for _ in range(MOST_UNROLLED // size):
        (goes_on,), variables = runs.run(condition, state, variables)
        if not isinstance(goes_on, Constant):
            return None
        if not goes_on.value.numpy().all():
            runs.after(variables)
            return state
        state, variables = runs.run(body, state, variables)
    return None


def _loop(runs: _Runs) -> list[Expr]:
    """Return the values after a loop whose condition is computed at run time.

    Inputs that a round passes on as they are, and variables that it only reads, are read from outside of the loop.
    """
    c, (condition, body) = runs.c, runs.graphs
    before = [*runs.inputs, *runs.held()]
    is_state = [*_changes(c, body), *(name in runs.changed for name in runs.used)]
    (begins,), _ = runs.run(condition, runs.inputs, runs.held())

    def mixed(states: Sequence[Expr], read: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        """Merge states with values read from outside; return the inputs and the variables of an iteration."""
        sources = (iter(read), iter(states))
        values = [next(sources[is_one]) for is_one in is_state]
        return values[: len(runs.inputs)], values[len(runs.inputs) :]

    def region(builder: relax.BlockBuilder, given: list[Expr]) -> list[Expr]:
        inputs, variables = mixed(given[: sum(is_state)], given[sum(is_state) :])
        outputs, variables = runs.run(body, inputs, variables, builder)
        (again,), variables = runs.run(condition, outputs, variables, builder)
        return [builder.emit(relax.op.reshape(again, ())), *compress([*outputs, *variables], is_state)]

    go = c.bb.emit(relax.op.reshape(begins, ()))
    read = [value for value, is_one in zip(before, is_state, strict=True) if not is_one]
    call = c.whole.program.loop(c.whole.node, go, [*compress(before, is_state)], region, read)
    outputs, variables = mixed(_fields(c, call), read)
    runs.after(variables)
    return outputs


def _changes(c: Any, body: int) -> list[bool]:
    """Return, for each input of the loop's body, whether an iteration changes it."""
    graph = c.whole.model.Subgraphs(body)
    pairs = zip(graph.InputsAsNumpy(), graph.OutputsAsNumpy(), strict=True)
    return [int(before) != int(after) for before, after in pairs]


def _if(c: Any, op: Any) -> Any:
    condition, *inputs = _inputs(c, op)
    runs = _Runs.of(c, called(op, "IF"), inputs)
    if isinstance(condition, Constant):
        chosen = runs.graphs[0 if condition.value.numpy().all() else 1]
        outputs, variables = runs.run(chosen, inputs, runs.held())
        runs.after(variables)
        return _result(outputs)
    chosen = c.bb.emit(relax.op.reshape(condition, ()))
    # An NPU has no branches.
    heavy = c.whole.own_integers and any(kind in _HEAVY for kind in _operators(c, runs.graphs))
    values = _one_branch(runs, chosen) if heavy else _both_branches(runs, chosen)
    count = len(values) - len(runs.used)
    runs.after(values[count:])
    return _result(values[:count])


def _both_branches(runs: _Runs, chosen: Expr) -> list[Expr]:
    """Compute both branches; return the outputs and used variables of the branch that is chosen."""
    yes, no = (
        [*outputs, *held] for outputs, held in (runs.run(k, runs.inputs, runs.held()) for k in runs.graphs)
    )
    emit = runs.c.bb.emit
    return [a if a.same_as(b) else emit(relax.op.where(chosen, a, b)) for a, b in zip(yes, no, strict=True)]


def _one_branch(runs: _Runs, chosen: Expr) -> list[Expr]:
    """Run one branch at run time; return its outputs and the used variables."""
    c, held = runs.c, runs.held()
    changes = [name in runs.changed for name in runs.used]

    def region(graph: int) -> Region:
        def convert(builder: relax.BlockBuilder, given: list[Expr]) -> list[Expr]:
            count = len(runs.inputs)
            outputs, variables = runs.run(graph, given[:count], given[count:], builder)
            return [*outputs, *compress(variables, changes)]

        return convert

    branches = [region(graph) for graph in runs.graphs]
    found = _fields(c, c.whole.program.choice(c.whole.node, [chosen], branches, [*runs.inputs, *held]))
    count = len(found) - sum(changes)
    after = iter(found[count:])
    return [
        *found[:count],
        *(next(after) if new else value for value, new in zip(held, changes, strict=True)),
    ]


def _call(c: Any, op: Any) -> Any:
    (number,) = called(op, c.get_op_code_str(op))
    return _result(c.run(number, _inputs(c, op)))


GRAPHS: dict[str, Convert] = {"CALL": _call, "IF": _if, COMPOSITE: _call, "WHILE": _while}
"""TFLite's operator name → its converter."""
