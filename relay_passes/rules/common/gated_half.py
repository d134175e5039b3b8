# SPDX-License-Identifier: Apache-2.0
"""The pattern 0.5 · x · (1 + gate(x)) of both forms of GELU, with factors in all orders that exporters emit."""

from tvm.relax.dpl import DFPattern, is_const, is_op

from relay_passes.rewriter.rule import Match
from relay_passes.rules.common.scalars import enlarged, is_number, uniform_value
from schedules.diagnostic import Diagnostic

_add, _multiply, _divide = is_op("relax.add"), is_op("relax.multiply"), is_op("relax.divide")


def gated_half(x: DFPattern, gate: DFPattern) -> tuple[DFPattern, dict[str, DFPattern]]:
    """Return the pattern and its parts, for `check_gated_half`.

    Args:
        x: The pattern of x.
        gate: The pattern of gate(x), which contains `x`.
    """
    half, one, two = is_const(), is_const(), is_const()
    plus = _add(gate, one)
    root = (
        _multiply(_multiply(x, plus), half)
        | _multiply(_multiply(x, half), plus)
        | _multiply(x, _multiply(plus, half))
        | _divide(_multiply(x, plus), two)
        | _multiply(_divide(x, two), plus)
    )
    return root, {"x": x, "half": half, "two": two, "one": one, "root": root}


def check_gated_half(match: Match) -> Diagnostic | None:
    """Return why the constants are not those of the formula; None if they are."""
    for part, number in (("half", 0.5), ("two", 2.0), ("one", 1.0)):
        if part in match.operands and not is_number(match.operands[part], number):
            actual = uniform_value(match.operands[part])
            return match.reject(f"{part} is not {number}", limit=number, actual=actual)
    return enlarged(match)
