# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
from tvm import ir, tirx

from relay_passes.bounds.intervals import Interval, Scope, interval, of_dtype

_SCOPE = Scope({}, {}, lambda load: None)


def _of(dtype: str, compute: Callable[[ir.Var], ir.Expr], known: Interval | None = None) -> Interval | None:
    x = tirx.Var("x", dtype)
    scope = Scope({x: known} if known else {}, {}, _SCOPE.load)
    return interval(compute(x), scope)


@pytest.mark.parametrize(
    ("dtype", "compute", "low", "high"),
    [
        ("int8", lambda x: tirx.Cast("int32", x) + 128, 0, 255),
        ("int64", lambda x: tirx.max(tirx.min(x, tirx.const(9, "int64")), tirx.const(0, "int64")), 0, 9),
        ("int32", lambda x: tirx.floormod(x, 7), 0, 6),
        ("int32", lambda x: tirx.truncmod(x, 7), -6, 6),
        ("uint8", lambda x: tirx.Cast("int32", x) * 2 - 1, -1, 509),
        ("int8", lambda x: tirx.Select(x < tirx.const(0, "int8"), tirx.const(0, "int8"), x), 0, 127),
        ("int64", lambda x: tirx.Select(tirx.And(x >= 0, x < 5), x, tirx.const(2, "int64")), 0, 4),
    ],
)
def test_what_is_proven(dtype: str, compute: Callable[[ir.Var], ir.Expr], low: int, high: int) -> None:
    assert _of(dtype, compute) == Interval(low, high)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1,
        lambda x: x * 2,
        lambda x: tirx.max(x, tirx.const(0, "int32")) + 1,
        lambda x: tirx.Cast("int32", tirx.Cast("int64", x) + 1),
    ],
)
def test_what_may_wrap_around_may_be_anything(compute: Callable[[ir.Var], ir.Expr]) -> None:
    assert _of("int32", compute) == of_dtype("int32")


def test_what_is_known_of_a_variable_is_used() -> None:
    assert _of("int32", lambda x: x * 3 + 1, Interval(0, 4)) == Interval(1, 13)
    assert _of("int32", lambda x: tirx.Select(x < 0, x + 5, x), Interval(0, 4)) == Interval(0, 4)
