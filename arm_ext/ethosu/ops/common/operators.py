# SPDX-License-Identifier: Apache-2.0
"""The NPU's view of an integer graph: one `Operator` for each group of Relax calls that is offloaded as a unit.

The file of an operator kind in `ops` defines the calls that it is parsed from, its attributes, constraints and TOSA
form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tvm.ir import Var

from relay_passes.ir.sources import Names
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True, eq=False)
class RunTimeTensor:
    """A tensor that is computed at run time, in contrast to a constant.

    Attributes:
        var: The Relax variable that holds it and identifies it.
        shape: Static shape.
        dtype: Element dtype.
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
    """Attributes of an operator that has no further ones; the base class of all attributes.

    Attributes:
        channels_first: Whether the data and the result are images [N, C, ...]; all other attributes are channels last.
    """

    channels_first: bool = False

    def data(self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor) -> Sequence[RunTimeTensor]:
        """Return the tensors with quantised values; others hold indices, bools or plain integers."""
        return (*inputs, output)

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the tensors whose zero point this operator uses, each with its zero point."""
        return ()


A_co = TypeVar("A_co", bound=Attributes, covariant=True)


@dataclass(frozen=True, eq=False)
class Operator(Generic[A_co]):
    """One NPU operator.

    Attributes:
        kind: Its name in constraints, reports and options: one of an `Operation`'s kinds, or the name of a Relax
            operator that the NPU does not have.
        nodes: The source nodes that it comes from.
        inputs: Tensors that it reads.
        output: The tensor that it computes.
        attributes: Attributes, of the class that belongs to the kind.
        bindings: Every variable whose binding is part of it, the output last.
        macs: Number of multiply-accumulates.
    """

    kind: str
    nodes: Names
    inputs: tuple[RunTimeTensor, ...]
    output: RunTimeTensor
    attributes: A_co
    bindings: tuple[Var, ...]
    macs: int = 0

    @property
    def tensors(self) -> tuple[RunTimeTensor, ...]:
        """Inputs and output."""
        return (*self.inputs, self.output)


def channels_last(operator: Operator[A_co]) -> Operator[A_co]:
    """Return an operator over NCHW images as one over NHWC images; return any other unchanged."""
    if not operator.attributes.channels_first:
        return operator

    def moved(tensor: RunTimeTensor) -> RunTimeTensor:
        batch, channels, *sizes = tensor.shape
        return replace(tensor, shape=(batch, *sizes, channels))

    inputs = tuple(moved(tensor) for tensor in operator.inputs)
    given = replace(operator.attributes, channels_first=False)
    return replace(operator, inputs=inputs, output=moved(operator.output), attributes=given)


@dataclass(frozen=True)
class UnsupportedCall:
    """A call that was not parsed as an NPU operator, so that it stays on the CPU.

    Attributes:
        var: The variable that the call is bound to.
        why: The rejection, with its source nodes and the operator's name, such as "layer_norm".
        macs: Number of multiply-accumulates.
    """

    var: Var
    why: Diagnostic
    macs: int = 0

    @property
    def nodes(self) -> Names:
        """The source nodes of the call."""
        return self.why.nodes

    @property
    def operator(self) -> str:
        """The name of the operator that the call computes."""
        return self.why.operator


@dataclass(frozen=True)
class NpuGraph:
    """An integer graph as NPU operators.

    Attributes:
        operators: The parsed operators in program order.
        unsupported: The calls that were not parsed, in program order.
        inputs: Parameters of the function.
        results: Variables that the function returns.
        reads: Bound variable → variables that its value reads, in program order.
    """

    operators: tuple[Operator[Any], ...]
    unsupported: tuple[UnsupportedCall, ...]
    inputs: tuple[Var, ...]
    results: tuple[Var, ...]
    reads: Mapping[Var, tuple[Var, ...]]
