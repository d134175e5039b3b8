# SPDX-License-Identifier: Apache-2.0
"""Evaluation of StableHLO operators in numpy, to fold loop counters and to recognise the function of a region.

A region (a comparator, a reducer) is recognised by its results for a few numbers, not by its form, which changes with
the version of the exporter.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.frontends.stablehlo.attributes import attribute, constant_of, tensor_of, word
from relay_passes.canonicalize.define_casts import cast
from relay_passes.canonicalize.define_division import quotient, remainder

Array = npt.NDArray[Any]

_COMPARE: dict[str, Callable[..., Array]] = {
    "EQ": np.equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
    "NE": np.not_equal,
}


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.where(b == 0, np.invert(np.zeros_like(a)), quotient(a, b))


def _remainder(a: Array, b: Array) -> Array:
    return np.asarray(np.fmod(a, b)) if a.dtype.kind == "f" else remainder(a, b)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "stablehlo.abs": np.abs,
    "stablehlo.add": np.add,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": np.exp,
    "stablehlo.log": np.log,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.not": np.invert,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.remainder": _remainder,
    "stablehlo.select": np.where,
    "stablehlo.sign": np.sign,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.subtract": np.subtract,
    "stablehlo.xor": np.bitwise_xor,
}


def by_total_order(op: Any) -> bool:
    """Whether a comparison of floats is by IEEE 754's totalOrder: -NaN < -inf < -0 < 0 < inf < NaN."""
    return attribute(op, "compare_type") is not None and word(op, "compare_type") == "TOTALORDER"


def total_order(x: Array) -> Array:
    """Map floats to integers that compare in the floats' total order; return integers unchanged."""
    if x.dtype.kind not in "fV":
        return x
    bits = np.asarray(x).view(f"i{x.dtype.itemsize}")
    # Among negative numbers, the one closer to zero has the smaller bit pattern.
    return np.asarray(np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits))


def computable(op: Any) -> bool:
    """Whether `compute` supports an operator."""
    return op.operation.name in FUNCTIONS or op.operation.name in ("stablehlo.compare", "stablehlo.convert")


def compute(op: Any, operands: Sequence[Array]) -> Array:
    """Compute an elementwise operator, in the dtype of its result."""
    name, tensor = op.operation.name, tensor_of(op.results[0].type)
    assert tensor is not None  # operators with other types have been refused earlier
    with np.errstate(all="ignore"):
        if name == "stablehlo.convert":
            value = operands[0]
        elif name == "stablehlo.compare":
            order = map(total_order, operands) if by_total_order(op) else operands
            value = _COMPARE[word(op, "comparison_direction")](*order)
        else:
            value = FUNCTIONS[name](*operands)
        return cast(np.asarray(value), tensor.dtype)


def evaluate(block: Any, arguments: Sequence[Array]) -> list[Array] | None:
    """Return a block's results for arguments; None if it contains an unsupported operator."""
    *operators, last = block.operations
    values = evaluate_operators(operators, dict(zip(block.arguments, arguments, strict=True)))
    if values is None:
        return None
    given = [_value(v, values) for v in last.operands]
    known = [v for v in given if v is not None]
    return known if len(known) == len(given) else None


def known_turns(condition: Any, body: Any, states: Sequence[Array | None], most: int) -> int | None:
    """Return a loop's constant number of iterations; None if it is unknown or above `most`.

    Args:
        condition: Block that gives whether there is another turn.
        body: Block of a turn.
        states: Known values of the loop's initial states.
        most: Turns to count.
    """
    counted = _Counted.of(condition, body)
    known = {k: states[k] for k in counted.wanted}
    for turn in range(most + 1):
        goes_on = counted.goes_on(known)
        if goes_on is None:
            return None
        if not goes_on:
            return turn
        if (after := counted.after(known)) is None:
            return None
        known = after
    return None


def outlasts(condition: Any, body: Any, states: Sequence[Array | None], most: int) -> bool:
    """Whether a loop that counts by a constant step to a bound has more than `most` iterations.

    Args:
        condition: Block that computes whether there is another iteration.
        body: Block of an iteration.
        states: Known values of the loop's initial states.
        most: Number of iterations to compare with.
    """
    counted = _Counted.of(condition, body)
    compared = [op for op in counted.tests if op.operation.name != "stablehlo.constant"]
    if len(compared) != 1 or compared[0].operation.name != "stablehlo.compare":
        return False
    if word(compared[0], "comparison_direction") in ("EQ", "NE"):
        return False
    first = {k: states[k] for k in counted.wanted}
    second = counted.after(first) if counted.goes_on(first) else None
    third = counted.after(second) if second and counted.goes_on(second) else None
    if second is None or third is None:
        return False
    last: dict[int, Array | None] = {}
    for k in counted.wanted:
        a, b, c = (np.asarray(each[k]) for each in (first, second, third))
        if a.dtype.kind not in "iu" or a.size != 1:
            return False
        step, again = int(b.item()) - int(a.item()), int(c.item()) - int(b.item())
        value, limits = int(a.item()) + most * step, np.iinfo(a.dtype)
        if step != again or not limits.min <= value <= limits.max:
            return False
        last[k] = np.full_like(a, value)
    return bool(counted.goes_on(last))


@dataclass(frozen=True)
class _Counted:
    """The states of a loop, and the operators on them, that decide its number of iterations.

    Attributes:
        condition: Block that computes whether there is another iteration.
        body: Block of an iteration.
        tests: Operators of `condition` that are needed.
        steps: Operators of `body` that are needed.
        wanted: Indices of the states that these operators read.
    """

    condition: Any
    body: Any
    tests: list[Any]
    steps: list[Any]
    wanted: set[int]

    @classmethod
    def of(cls, condition: Any, body: Any) -> "_Counted":
        ends = _results(body)
        tests, wanted = _needed(condition, _results(condition))
        while True:
            steps, read = _needed(body, [ends[k] for k in wanted])
            if read <= wanted:
                return cls(condition, body, tests, steps, wanted)
            wanted |= read

    def goes_on(self, known: Mapping[int, Array | None]) -> bool | None:
        """Whether another iteration follows; None if that is unknown."""
        found = _given(self.condition, self.tests, known, _results(self.condition))
        return None if found is None else bool(found[0].all())

    def after(self, known: Mapping[int, Array | None]) -> dict[int, Array | None] | None:
        """Return the states after an iteration; None if they cannot be computed."""
        ends = _results(self.body)
        found = _given(self.body, self.steps, known, [ends[k] for k in known])
        return None if found is None else dict(zip(known, found, strict=True))


def _results(block: Any) -> list[Any]:
    return list(list(block.operations)[-1].operands)


def _needed(block: Any, values: Sequence[Any]) -> tuple[list[Any], set[int]]:
    """Return the operators that a block's values depend on, and the indices of the block arguments that they read."""
    needed, operators = set(values), []
    for op in reversed(list(block.operations)[:-1]):
        if not needed.isdisjoint(op.results):
            operators.append(op)
            needed.update(op.operands)
    return operators[::-1], {k for k, argument in enumerate(block.arguments) if argument in needed}


def _given(
    block: Any, operators: Sequence[Any], known: Mapping[int, Array | None], wanted: Sequence[Any]
) -> list[Array] | None:
    """Return the values `wanted` of a block, or None if they cannot be computed."""
    arguments = {block.arguments[k]: value for k, value in known.items() if value is not None}
    values = evaluate_operators(operators, arguments) if len(arguments) == len(known) else None
    found = [] if values is None else [_value(v, values) for v in wanted]
    given = [v for v in found if v is not None]
    return given if len(given) == len(wanted) else None


def evaluate_operators(operators: Sequence[Any], values: dict[Any, Array]) -> dict[Any, Array] | None:
    """Return the given values and the results of elementwise operators; None if an operator is unsupported."""
    values = dict(values)
    for op in operators:
        if op.operation.name == "stablehlo.constant":
            continue
        operands = [_value(v, values) for v in op.operands]
        known = [v for v in operands if v is not None]
        if len(known) < len(operands) or not computable(op):
            return None
        values[op.results[0]] = compute(op, known)
    return values


def _value(value: Any, known: dict[Any, Array]) -> Array | None:
    """Return a known value, or the number that all elements of a constant equal; else None."""
    if value in known:
        return known[value]
    owner = value.owner
    # A block owns its arguments.
    if not hasattr(owner, "operation") or owner.operation.name != "stablehlo.constant":
        return None
    constant = constant_of(owner, {})
    return constant.reshape(-1)[0] if constant.size and not any(constant.strides) else constant


def reducer_of(block: Any) -> str | None:
    """Return the only operator of a block, if it is applied to the block's two arguments; else None."""
    first, *others = block.operations
    if len(others) != 1 or set(first.operands) != set(block.arguments):
        return None
    (last,) = others
    return first.operation.name if list(last.operands) == list(first.results) else None


def behaves(block: Any, dtypes: Sequence[str], wanted: Callable[..., Iterable[Any]]) -> bool:
    """Whether a block computes the same function as `wanted`, tested for all combinations of a few numbers.

    Args:
        block: Block of a region.
        dtypes: Dtypes of its arguments.
        wanted: Arguments, as numbers, to results.
    """
    numbers = [
        (0, 1) if dtype == "bool" else (0, 1, 3, 100 if dtype.startswith("uint") else -100)
        for dtype in dtypes
    ]
    for choice in itertools.product(*numbers):
        given = evaluate(block, [np.array(x, dtype) for x, dtype in zip(choice, dtypes, strict=True)])
        if given is None or [float(x) for x in given] != [float(x) for x in wanted(*choice)]:
            return False
    return True
