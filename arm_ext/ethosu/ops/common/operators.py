# SPDX-License-Identifier: Apache-2.0
"""The NPU's view of an integer graph: one `Operator` for each group of calls that becomes one piece of TOSA.

What there is to know of each kind stands in its file in `ops`: the calls that it is found in, its attributes, limits
and TOSA form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tvm.ir import Var

from relay_passes.ir.sources import Names
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True, eq=False)
class Tensor:
    """A run-time tensor.

    Attributes:
        var: The variable that holds it; what a tensor is known by.
        shape: Static.
        dtype: Of its elements.
    """

    var: Var
    shape: tuple[int, ...]
    dtype: str

    @property
    def name(self) -> str:
        """Name of the variable."""
        return str(self.var.name)


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """Attributes of an operator that has none of its own, and the base of all others.

    Attributes:
        channels_first: Whether the data and the result are images [N, C, ...]; other attributes are channels last.
    """

    channels_first: bool = False

    def data(self, inputs: Sequence[Tensor], output: Tensor) -> Sequence[Tensor]:
        """Return the tensors that hold quantised values; others hold indices, truths or integers of the model."""
        return (*inputs, output)

    def zero_points(self, inputs: Sequence[Tensor], output: Tensor) -> Sequence[tuple[Tensor, int]]:
        """Return the tensors that have a zero point here, with it."""
        return ()


A_co = TypeVar("A_co", bound=Attributes, covariant=True)


@dataclass(frozen=True, eq=False)
class Operator(Generic[A_co]):
    """One NPU operator.

    Attributes:
        kind: What the constraints, reports and options know it by: one of an `Operation`'s kinds, or the name of a
            Relax operator that the NPU does not have.
        nodes: The source nodes that it comes from.
        inputs: Tensors that it reads.
        output: The tensor that it computes.
        attributes: Of its kind.
        bindings: Every variable that is its own, the output the last.
        macs: Multiply-accumulates.
    """

    kind: str
    nodes: Names
    inputs: tuple[Tensor, ...]
    output: Tensor
    attributes: A_co
    bindings: tuple[Var, ...]
    macs: int = 0

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs and output."""
        return (*self.inputs, self.output)


def channels_last(operator: Operator[A_co]) -> Operator[A_co]:
    """Return an operator over NCHW images as one over NHWC images; return any other unchanged."""
    if not operator.attributes.channels_first:
        return operator

    def moved(tensor: Tensor) -> Tensor:
        batch, channels, *sizes = tensor.shape
        return replace(tensor, shape=(batch, *sizes, channels))

    inputs = tuple(moved(tensor) for tensor in operator.inputs)
    given = replace(operator.attributes, channels_first=False)
    return replace(operator, inputs=inputs, output=moved(operator.output), attributes=given)


@dataclass(frozen=True)
class Unread:
    """A call that is no NPU operator.

    Attributes:
        var: What it computes.
        why: Why it is none; with its source nodes, and what it computes, such as "layer_norm".
        macs: Multiply-accumulates.
    """

    var: Var
    why: Diagnostic
    macs: int = 0

    @property
    def nodes(self) -> Names:
        """Its source nodes."""
        return self.why.nodes

    @property
    def operator(self) -> str:
        """What it computes."""
        return self.why.operator


@dataclass(frozen=True)
class Graph:
    """An integer graph as NPU operators.

    Attributes:
        operators: In program order.
        unread: What is left, in program order.
        inputs: Parameters of the function.
        results: Variables that the function returns.
        reads: For every variable bound, in program order, those that its value reads.
    """

    operators: tuple[Operator[Any], ...]
    unread: tuple[Unread, ...]
    inputs: tuple[Var, ...]
    results: tuple[Var, ...]
    reads: Mapping[Var, tuple[Var, ...]]
