# SPDX-License-Identifier: Apache-2.0
"""`Operation`: the definition of an operator. Each file of `ops` has one, and the registry lists them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, TypeVar

from tvm.ir import Call, Expr, Var

from arm_ext.ethosu.ops.common.constraint import Constraint
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Reader, read_by, tensor_of
from arm_ext.ethosu.ops.common.sums import PendingSum
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from arm_ext.target.npu import Family
from relay_passes.ir.sources import sources_of

A = TypeVar("A", bound=Attributes)


Parser = Callable[[Var, Expr, Reader], Operator[A] | None]
"""Parses the value that a variable is bound to; None if it is not this operator."""

SumParser = Callable[[Call, Reader], PendingSum | None]
"""Parses the call that computes a sum's int32 accumulators; None if it is not this sum."""


ITEM = "tuple item"
"""Key among `Operation.patterns` for an item of a tuple, which has no operator name."""


def always(_: Operator[Any]) -> bool:
    """Return True: a predicate of `Quirks` that holds for every operator."""
    return True


def never(_: Operator[Any]) -> bool:
    """Return False: a predicate of `Quirks` that holds for no operator."""
    return False


@dataclass(frozen=True)
class Quirks:
    """Defects of Vela 5.2 for an operator in combination with others, which emission and partitioning work around.

    Attributes:
        reads_slices: Whether the operator may read a slice of a tensor. Other operators are compiled to read the whole
            tensor.
        writes_slices: Whether the operator writes slices of a tensor, which a RESCALE that is a separate command cannot
            do.
        rescales_apart: Whether its last RESCALE may become a separate command.
        is_view: Whether its result is a view of its input, so that the quirks of the input's producer apply to it.
        widens: Whether the operator widens its input by a separate command. For Ethos-U55 and U65, such a command reads
            another slice than the one it is given.
        joined: Whether Vela fuses it with its producer, whose result is then no longer kept as an output.
        joins_all: Whether Vela may fuse any operators of a region that contains it.
        barrier: Why it must begin a region of its own, or None.
        barrier_behind: Why operators that read it must begin a region of their own, or None.
    """

    reads_slices: bool = False
    writes_slices: bool = False
    rescales_apart: Callable[[Operator[Any]], bool] = never
    is_view: bool = False
    widens: Callable[[Operator[Any]], bool] = never
    joined: bool = False
    joins_all: bool = False
    barrier: Callable[[Operator[Any], Family], str | None] = lambda *_: None
    barrier_behind: Callable[[Operator[Any], Family], str | None] = lambda *_: None


@dataclass(frozen=True, eq=False)
class Operation(Generic[A]):
    """Definition of one operator of the NPU, or of several that differ only in a table entry.

    Attributes:
        kinds: The values of `Operator.kind` that it defines.
        emit: Adds an operator to a TOSA graph: takes the graph, the `Operator` and its input values, and returns the
            output value. Images are NHWC.
        patterns: Parsers, keyed by the Relax operator (without "relax.") or the numerics routine that is called.
        sums: Parsers of accumulators that a requantisation reads, keyed like `patterns`.
        constraints: Constraints of the operation alone, checked after `OF_ALL`. The first violated one is the reason of
            the rejection.
        quirks: Defects of Vela for this operator.
    """

    kinds: tuple[str, ...]
    emit: Callable[Concatenate[TosaGraph, Operator[A], ...], TosaTensor]
    patterns: Mapping[str, Parser[A]] = field(default_factory=dict)
    sums: Mapping[str, SumParser] = field(default_factory=dict)
    constraints: tuple[Constraint[A], ...] = ()
    quirks: Quirks = Quirks()


def operator_of(
    kind: str, var: Var, value: Expr, attributes: A, inputs: list[Expr] | None = None
) -> Operator[A]:
    """Return the operator for a call.

    Args:
        kind: Kind of the operator.
        var: The variable that the call is bound to.
        value: The call.
        attributes: Attributes of the operator.
        inputs: The variables that it reads; if None, every variable among the call's arguments.
    """
    read: list[RunTimeTensor] = [tensor_of(x) for x in (read_by(value) if inputs is None else inputs)]
    return Operator(kind, sources_of(value), tuple(read), tensor_of(var), attributes, (var,))


def of_relax(kind: str, attributes: Callable[[Call, Reader], A]) -> Parser[A]:
    """Return a parser of a Relax call on integers that forms an operator without requantisation."""

    def parse(var: Var, value: Expr, reader: Reader) -> Operator[A] | None:
        if not isinstance(value, Call) or not reader.stands_alone(var, value):
            return None
        return operator_of(kind, var, value, attributes(value, reader))

    return parse


def of_routine(kind: str, attributes: Callable[[Sequence[Expr], Mapping[str, Any]], A]) -> Parser[A]:
    """Return the parser of a call of a numerics routine.

    Args:
        kind: Kind of the operator.
        attributes: Makes the operator's attributes from the call's arguments (tensors, then constants) and the
            routine's attributes.
    """

    def parse(var: Var, value: Expr, reader: Reader) -> Operator[A] | None:
        attrs = reader.routine(value)
        assert attrs is not None, value
        return operator_of(kind, var, value, attributes(list(value.args[1].fields), attrs))

    return parse


def no_attributes(_: Call, __: Reader) -> Attributes:
    """Return the attributes of an operator that its shapes and dtypes define completely."""
    return Attributes()
