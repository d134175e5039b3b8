# SPDX-License-Identifier: Apache-2.0
"""Variable tensors of a TFLite model, which become states."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arm_ext.frontends.common.imported import State, TensorSpec


@dataclass(frozen=True)
class Variable:
    """A tensor that the model keeps and changes from run to run.

    Attributes:
        number: Number of the tensor.
        spec: Name, shape and dtype; the name is the tensor's, unless another tensor has it, too.
        zero_point: Value that it is filled with before the first run.
    """

    number: int
    spec: TensorSpec
    zero_point: int

    @property
    def next(self) -> TensorSpec:
        """Spec of the output with the variable's next value."""
        return TensorSpec(f"{self.spec.name}.next", self.spec.shape, self.spec.dtype)

    @property
    def state(self) -> State:
        """The variable as a state."""
        initial = np.full(self.spec.shape, self.zero_point, self.spec.dtype)
        return State(self.spec.name, self.next.name, initial)


def variables_of(graph: Any, specs: Sequence[TensorSpec], taken: Collection[str]) -> tuple[Variable, ...]:
    """Return the variables that operators read, in the order of their first reads.

    Args:
        graph: Graph of the model.
        specs: Spec of each of its tensors that is a variable, by `numbers_of`.
        taken: Names of its inputs and outputs.
    """
    found: list[Variable] = []
    names = set(taken)
    for number, spec in zip(numbers_of(graph), specs, strict=True):
        name, count = spec.name, 1
        while {name, f"{name}.next"} & names:
            count += 1
            name = f"{spec.name}:{count}"
        names |= {name, f"{name}.next"}
        quantization = graph.Tensors(number).Quantization()
        scaled = quantization is not None and quantization.ZeroPointLength() == 1
        zero_point = int(quantization.ZeroPoint(0)) if scaled and spec.dtype == "int8" else 0
        found.append(Variable(number, TensorSpec(name, spec.shape, spec.dtype), zero_point))
    return tuple(found)


def numbers_of(graph: Any) -> list[int]:
    """Return the numbers of the variable tensors that operators read."""
    given = {graph.Inputs(k) for k in range(graph.InputsLength())}
    operators = (graph.Operators(k) for k in range(graph.OperatorsLength()))
    # VAR_HANDLE, which names a variable, has no inputs.
    read = [op.Inputs(k) for op in operators for k in range(op.InputsLength())]
    variable = (k for k in dict.fromkeys(read) if k >= 0 and graph.Tensors(k).IsVariable())
    return [k for k in variable if k not in given]
