# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm.ir import Expr

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.rules.affine_before_unflatten import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, refusal
from tests.relay_passes.graphs import operators

Write = Callable[[Ops, Expr], Expr]


def _affine(name: str, shape: tuple[int, ...], constant: tuple[int, ...]) -> Write:
    values = np.arange(2, 2 + np.prod(constant, dtype=int), dtype=np.float32).reshape(constant)
    return lambda ops, x: ops(name, ops.reshape(x, shape), values)


@pytest.mark.parametrize(
    ("name", "shape", "constant"),
    [
        ("add", (2, 7, 3, 5), (3, 5)),
        ("multiply", (2, 7, 3, 5), (3, 5)),
        ("add", (2, 7, 3, 5), (1, 1, 3, 5)),
        ("multiply", (2, 7, 3, 5), ()),
        ("add", (2, 7, 5, 1, 3), (5, 1, 3)),
    ],
)
def test_values_are_kept(name: str, shape: tuple[int, ...], constant: tuple[int, ...]) -> None:
    check_rewrite(form(_affine(name, shape, constant), (2, 7, 15)), RULE, [name, "reshape"], tolerance=0)


def test_a_projection_into_heads_is_one_product() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        y = ops.reshape(ops.matmul(x, np.ones((9, 15), np.float32)), (7, 3, 5))
        return ops.multiply(ops.add(y, np.arange(15, dtype=np.float32).reshape(3, 5)), 0.5)

    assert operators(canonicalize(form(write, (7, 9)))["main"]) == ["matmul", "add", "reshape"]


NEAR_MISSES: dict[str, Write] = {
    "the last axis is not split (expected (2, 7, 15), found (14, 15))": _affine("add", (14, 15), (15,)),
    "the last axis is not split (expected (2, 7, 15), found (7, 2, 3, 5))": _affine(
        "add", (7, 2, 3, 5), (3, 5)
    ),
    "the constant is not over the parts alone (expected (3, 5), found (5,))": _affine(
        "add", (2, 7, 3, 5), (5,)
    ),
    "the constant is not over the parts alone (expected (3, 5), found (7, 3, 5))": _affine(
        "add", (2, 7, 3, 5), (7, 3, 5)
    ),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 7, 15)), RULE) == reason
