# SPDX-License-Identifier: Apache-2.0
"""What a file in `ops` says of its operator: an `Operation`, which the registry lists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, TypeVar

from tvm.ir import Call, Expr, Var

from arm_ext.ethosu.ops.common.constraint import Constraint
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, Tensor
from arm_ext.ethosu.ops.common.reading import Reader, read_by, tensor_of
from arm_ext.ethosu.ops.common.sums import Sum
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.target.npu import Family
from relay_passes.ir.sources import sources_of

A = TypeVar("A", bound=Attributes)


Parser = Callable[[Var, Expr, Reader], Operator[A] | None]
"""Parses what a variable is bound to; None where that is no such operator."""

SumParser = Callable[[Call, Reader], Sum | None]
"""Parses the anchor of a sum; None where it is no such sum."""


ITEM = "tuple item"
"""The name of a tuple's item among patterns."""


def always(_: Operator[Any]) -> bool:
    """Of every operator."""
    return True


def never(_: Operator[Any]) -> bool:
    """Of no operator."""
    return False


@dataclass(frozen=True)
class Quirks:
    """What Vela 5.2 gets wrong of an operator beside others, which emission and partitioning go around.

    Attributes:
        reads_slices: Whether it may read a part of a tensor. Of other operators Vela forgets that it is a part.
        writes_slices: Whether it writes parts of a tensor, which a RESCALE that is a command of its own cannot.
        rescales_apart: Whether its last RESCALE may be a command of its own.
        is_view: Whether its result is its data, and with it what is said of who computed that.
        widens: Whether it widens what it reads by a command of its own. For Ethos-U55 and U65, such a command reads
            another part than it is given.
        joined: Whether it is joined with what it reads, which is then no longer kept as an output.
        joins_all: Whether Vela may, for its sake, join any operators of its region.
        barrier: Why it must begin a region of its own, or None.
        barrier_behind: Why what reads it must, or None.
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
    """Everything about one operator of the NPU, or several that differ in a table alone.

    Attributes:
        kinds: Of its `Operator`s.
        emit: Adds one to a TOSA graph: of the graph, the `Operator` and the values of its inputs, the value of its
            output. Images are channels last.
        patterns: By the name of a Relax operator (without "relax."), or the numerics of a routine, that computes the
            output: how it is parsed.
        sums: By the same of an anchor whose sums a requantisation reads: how the anchor is parsed.
        constraints: Those of its own, behind those of every operator. The first that is violated is the reason.
        quirks: See `Quirks`.
    """

    kinds: tuple[str, ...]
    emit: Callable[Concatenate[TosaGraph, Operator[A], ...], Value]
    patterns: Mapping[str, Parser[A]] = field(default_factory=dict)
    sums: Mapping[str, SumParser] = field(default_factory=dict)
    constraints: tuple[Constraint[A], ...] = ()
    quirks: Quirks = Quirks()


def operator_of(
    kind: str, var: Var, value: Expr, attributes: A, inputs: list[Expr] | None = None
) -> Operator[A]:
    """Return the operator that a call is.

    Args:
        kind: Its kind.
        var: What the call computes.
        value: The call.
        attributes: Of the kind.
        inputs: What it reads; if None, every variable among the call's arguments.
    """
    read: list[Tensor] = [tensor_of(x) for x in (read_by(value) if inputs is None else inputs)]
    return Operator(kind, sources_of(value), tuple(read), tensor_of(var), attributes, (var,))


def of_relax(kind: str, attributes: Callable[[Call, Reader], A]) -> Parser[A]:
    """Return the parser of a Relax call on integers that is an operator as it stands."""

    def parse(var: Var, value: Expr, reader: Reader) -> Operator[A] | None:
        if not isinstance(value, Call) or not reader.stands_alone(var, value):
            return None
        return operator_of(kind, var, value, attributes(value, reader))

    return parse


def of_routine(kind: str, attributes: Callable[[Sequence[Expr], Mapping[str, Any]], A]) -> Parser[A]:
    """Return the parser of a routine's call.

    Args:
        kind: Of the operator.
        attributes: Makes its attributes of what the routine is given (tensors, then constants), and of its attributes.
    """

    def parse(var: Var, value: Expr, reader: Reader) -> Operator[A] | None:
        attrs = reader.routine(value)
        assert attrs is not None, value
        return operator_of(kind, var, value, attributes(list(value.args[1].fields), attrs))

    return parse


def no_attributes(_: Call, __: Reader) -> Attributes:
    """The attributes of a call whose shapes say everything."""
    return Attributes()
