# SPDX-License-Identifier: Apache-2.0
"""Parsing of an integer graph of the numerics `tosa` into NPU operators, by the patterns that the operators name.

requantize(add(conv2d(pad(x, zp), W), offset))    →    one conv2d with padding, bias and RESCALE

A Relax call on integers that no pattern matches becomes an operator of that name, too, which the constraints then
reject as unknown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import IRModule
from tvm.ir import Call, Expr, GenericConst, TupleGetItem, Var

from arm_ext.ethosu.ops.common.contract import ITEM, Parser, SumParser, operator_of
from arm_ext.ethosu.ops.common.operators import Attributes, NpuGraph, Operator, UnsupportedCall
from arm_ext.ethosu.ops.common.reading import (
    Array,
    dtype_of,
    is_integer,
    name_of,
    read_by,
    tensor_of,
    variables,
)
from arm_ext.ethosu.ops.common.sums import AccumulatorRescale, PendingSum
from arm_ext.ethosu.ops.pooling import average_of
from arm_ext.ethosu.ops.registry import OPERATIONS
from arm_ext.ethosu.partition.unsupported import CONVERSIONS, unsupported_call
from relay_passes.ir.sources import bindings_of, sources_of, union

_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
_SUMS = ("matmul", "sum", "nn.conv1d", "nn.conv2d", "nn.conv3d")

_PATTERNS: Mapping[str, Sequence[Parser[Any]]] = {
    name: [other.patterns[name] for other in OPERATIONS if name in other.patterns]
    for operation in OPERATIONS
    for name in operation.patterns
}
_ANCHORS: Mapping[str, Sequence[SumParser]] = {
    name: [other.sums[name] for other in OPERATIONS if name in other.sums]
    for operation in OPERATIONS
    for name in operation.sums
}


def read(mod: IRModule) -> NpuGraph:
    """Parse `main`, in A-normal form with static shapes, as the phase `integerize` leaves it."""
    return _FunctionParser(mod).graph()


class _FunctionParser:
    """Parser of one function; implements `Reader`."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._main = mod["main"]
        self._definitions: dict[Var, Expr] = {b.var: b.value for b in bindings_of(self._main)}
        self._results = tuple(variables([self._main.body.body]))
        self._uses = Counter(self._results)
        self._readers: dict[Var, list[Expr]] = {}
        for value in self._definitions.values():
            read_here = read_by(value)
            self._uses.update(read_here)
            for var in dict.fromkeys(read_here):
                self._readers.setdefault(var, []).append(value)

    def graph(self) -> NpuGraph:
        """Return all operators, and the calls that are not part of any."""
        found: list[Operator[Any]] = []
        covered: set[Var] = set()
        # From the end, so that calls that are part of a later operator are not parsed as operators of their own.
        for var, value in reversed(self._definitions.items()):
            if var not in covered and (operator := self._operator(var, value)):
                found.insert(0, operator)
                covered.update(operator.bindings)
        left = {var: value for var, value in self._definitions.items() if var not in covered}
        others = [self._unsupported(var, value) for var, value in left.items() if isinstance(value, Call)]
        reads = {var: tuple(read_by(value)) for var, value in self._definitions.items()}
        return NpuGraph(tuple(found), tuple(others), tuple(self._main.params), self._results, reads)

    def routine(self, value: Expr) -> Mapping[str, Any] | None:
        """Return the attributes of the routine that a call_tir calls."""
        if name_of(value) != "call_tir":
            return None
        attrs = self._mod[value.args[0]].attrs
        return dict(attrs.items()) if attrs and "numerics" in attrs else None

    def value(self, expr: Expr) -> Expr | None:
        """Return the value that a variable is bound to; None for a parameter, or an expression that is no variable."""
        return self._definitions.get(expr) if isinstance(expr, Var) else None

    def single(self, expr: Expr) -> Call | None:
        """Return the call that computes a variable, if the variable has one use; else None."""
        value = self.value(expr)
        return value if isinstance(value, Call) and self._uses[expr] == 1 else None

    def stands_alone(self, var: Var, call: Call) -> bool:
        """Whether a Relax call reads integers and is not part of a sum with requantisation."""
        name, inputs = name_of(call), read_by(call)
        if name in ("call_tir", *CONVERSIONS, *_SUMS) or not inputs or not all(is_integer(x) for x in inputs):
            return False
        reads = [self.value(x) for x in inputs]
        of_sums = any(name_of(value) in (*_SUMS, "call_tir") and _is_wide(value) for value in reads)
        if name in _ARITHMETIC:
            return not of_sums
        # A cast of a sum's operands or of its result is part of the sum.
        into_sums = any(name_of(reader) in _SUMS for reader in self._readers.get(var, []))
        return name != "astype" or not (of_sums or into_sums)

    def _operator(self, var: Var, value: Expr) -> Operator[Any] | None:
        if not is_integer(var) or not isinstance(value, Call | TupleGetItem):
            return None
        attrs = self.routine(value)
        name = (
            ITEM if isinstance(value, TupleGetItem) else str(attrs["numerics"]) if attrs else name_of(value)
        )
        if name == "tosa.requantize":
            return self._sum(var, value, attrs or {})
        for parse in _PATTERNS.get(name, ()):
            found = parse(var, value, self)
            if found is not None:
                return found
        if isinstance(value, Call) and self.stands_alone(var, value):
            return operator_of(name, var, value, Attributes())
        return None

    def _sum(self, var: Var, value: Expr, attrs: Mapping[str, Any]) -> Operator[Any] | None:
        """Parse a requantisation with the sum that it reads and the bias that may be added in between."""
        total, multiplier = value.args[1].fields
        chain = [(var, value)]
        call, bias = self.single(total), np.zeros(1, np.int64)
        if call is not None and name_of(call) == "add" and isinstance(call.args[1], GenericConst):
            chain.insert(0, (total, call))
            total, bias = call.args[0], call.args[1].value.numpy().astype(np.int64)
            call = self.single(total)
            if call is not None and name_of(call) == "astype":
                # The accumulators are widened only for their bias.
                chain.insert(0, (total, call))
                total, call = call.args[0], self.single(call.args[0])
        found = None if call is None else self._anchor(call)
        if call is None or found is None:
            return None
        scales = multiplier.value.numpy()
        if attrs["average"]:
            found = average_of(found, bias, scales)
        chain = [*found.covered, (total, call), *chain]
        if found.channels_first:
            bias, scales = (_channels_last(values) for values in (bias, scales))
        bias = _flat(bias) + found.offset
        requantization = AccumulatorRescale(
            bias=bias,
            magnitude=found.reach + int(np.abs(bias).max(initial=0)),
            multiplier=scales,
            **{name: int(attrs[name]) for name in ("shift", "zero_point", "low", "high")},
        )
        return Operator(
            kind=found.kind,
            nodes=union(sources_of(each) for _, each in chain),
            inputs=tuple(tensor_of(x) for x in found.inputs),
            output=tensor_of(var),
            attributes=found.attributes(requantization),
            bindings=tuple(each for each, _ in chain),
            macs=found.macs,
        )

    def _anchor(self, call: Call) -> PendingSum | None:
        """Parse a call as the accumulators of a sum; None if no parser knows it."""
        attrs = self.routine(call)
        parsers = _ANCHORS.get(str(attrs["numerics"]) if attrs else name_of(call), ())
        return next((found for parse in parsers if (found := parse(call, self)) is not None), None)

    def _unsupported(self, var: Var, value: Call) -> UnsupportedCall:
        routine = self.routine(value)
        found = None if routine or "float" in dtype_of(var) else self._anchor(value)
        return unsupported_call(
            var, value, routine, self._readers.get(var, []), 0 if found is None else found.macs
        )


def _is_wide(value: Expr | None) -> bool:
    return value is not None and dtype_of(value) in ("int32", "int64")


def _channels_last(values: Array) -> Array:
    """Move the channel axis of constants [1, C, ...] last; scalars and vectors are returned as they are."""
    return np.moveaxis(values, 1, -1) if values.ndim > 1 else values


def _flat(bias: Array) -> Array:
    """Return a bias [..., C] as [C] if it varies along the last axis only."""
    return bias.reshape(-1) if bias.size in (1, bias.shape[-1]) else bias
