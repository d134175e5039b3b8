# SPDX-License-Identifier: Apache-2.0
"""Named variables of a TFLite model: those that a run changes become states, and the others constants.

VAR_HANDLE "s" → READ_VARIABLE; ASSIGN_VARIABLE    main(x, s) -> (y, s.next)
CALL_ONCE                                          what a state begins with
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import tflite
from tvm import relax
from tvm.ir import Constant, StringImm

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import State, TensorSpec
from arm_ext.frontends.tflite.codes import operator_name
from arm_ext.frontends.tflite.graphs import called
from arm_ext.frontends.tflite.operands import Convert, options_of

Operators = Mapping[int, Mapping[str, Any]]
"""Graph's number → its operators by name."""


@dataclass(frozen=True, eq=False)
class Resource:
    """A named variable that a run changes.

    Attributes:
        name: Name of the variable as an input of the imported model.
        spec: Name, shape and dtype of that input.
        initial: Value of the variable before the first run.
    """

    name: str
    spec: TensorSpec
    initial: npt.NDArray[Any]

    @property
    def next(self) -> TensorSpec:
        """Spec of the output with the variable's next value."""
        return TensorSpec(f"{self.spec.name}.next", self.spec.shape, self.spec.dtype)

    @property
    def state(self) -> State:
        """Return the variable as a state of the imported model."""
        return State(self.spec.name, self.next.name, self.initial)


def resources_of(
    model: Any, operators: Operators, initial: Mapping[str, npt.NDArray[Any]], taken: Collection[str]
) -> tuple[Resource, ...]:
    """Return the variables that a run changes, as resources with their initial values.

    Args:
        model: The parsed file.
        operators: Operators of the model's graphs.
        initial: First value of each variable.
        taken: Names of the model's inputs and outputs.
    """
    changed = assigned(model, operators)
    found = []
    for name, value in initial.items():
        if name in changed or "" in changed:
            own = f"{name}:variable" if name in taken else name
            found.append(Resource(name, TensorSpec(own, value.shape, str(value.dtype)), value))
    return tuple(found)


def initial_values(c: Any, operators: Operators) -> dict[str, npt.NDArray[Any]]:
    """Run the graphs that run once, and return the values that they assign to variables.

    Args:
        c: A `QdqConverter` for this alone.
        operators: Operators of the model's graphs.

    Raises:
        ModelError: A graph assigns a value that is no constant.
    """
    for graph in sorted(_run_once(c.whole.model, operators)):
        c.run(graph, [])
    for name, value in c.whole.variables.items():
        if not isinstance(value, Constant):
            raise ModelError(
                f"the variable '{name}' has a computed initial value; only constants are supported"
            )
    return {name: value.value.numpy() for name, value in c.whole.variables.items()}


def _run_once(model: Any, operators: Operators) -> set[int]:
    every = [op for ops in operators.values() for op in ops.values()]
    return {
        graph
        for op in every
        if operator_name(model, op) == "CALL_ONCE"
        for graph in called(op, operator_name(model, op))
    }


def handles(model: Any, operators: Operators) -> list[str]:
    """Return the names of the variables of all VAR_HANDLE operators."""
    every = (op for ops in operators.values() for op in ops.values())
    return [_name_of(op) for op in every if operator_name(model, op) == "VAR_HANDLE"]


def assigned(model: Any, operators: Operators) -> set[str]:
    """Return the names of variables that a run assigns; "" stands for a variable whose handle comes from elsewhere."""
    once, names = _run_once(model, operators), set()
    for graph, ops in operators.items():
        made: dict[int, str] = {}
        for op in ops.values() if graph not in once else ():
            code = operator_name(model, op)
            if code == "VAR_HANDLE":
                made[op.Outputs(0)] = _name_of(op)
            if code == "ASSIGN_VARIABLE":
                names.add(made.get(op.Inputs(0), ""))
    return names


def first_reads(model: Any, operators: Mapping[str, Any]) -> dict[str, int]:
    """Return, for each variable that a graph reads, the tensor that its first READ_VARIABLE computes.

    That is its value before the run, where the graph does not assign it before.
    """
    made: dict[int, str] = {}
    found: dict[str, int] = {}
    for op in operators.values():
        code = operator_name(model, op)
        if code == "VAR_HANDLE":
            made[op.Outputs(0)] = _name_of(op)
        if code == "READ_VARIABLE" and op.Inputs(0) in made:
            found.setdefault(made[op.Inputs(0)], int(op.Outputs(0)))
    return found


def _name_of(op: Any) -> str:
    return (options_of(op, tflite.VarHandleOptions).SharedName() or b"variable").decode()


def _handle(_: Any, op: Any) -> StringImm:
    return StringImm(_name_of(op))


def _read(c: Any, op: Any) -> relax.Expr:
    name = c.value(op.Inputs(0)).value
    if name not in c.whole.variables:
        raise ModelError(f"the variable '{name}' is read before it has a value")
    return c.whole.variables[name]


def _assign(c: Any, op: Any) -> None:
    c.whole.variables[c.value(op.Inputs(0)).value] = c.value(op.Inputs(1))


def _done(_: Any, __: Any) -> None:
    """Convert CALL_ONCE to nothing, since `initial_values` has run it."""


RESOURCES: dict[str, Convert] = {
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _done,
    "READ_VARIABLE": _read,
    "VAR_HANDLE": _handle,
}
"""TFLite's operator name → its converter."""
