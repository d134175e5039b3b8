# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm.ir import Expr

from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule
from relay_passes.rules.common.scalars import bounds
from relay_passes.rules.recognize_clip import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, refusal

INF = float("inf")
FORMS: dict[str, tuple[tuple[float, float], Callable[[Ops, Expr], Expr]]] = {
    "maximum": ((-0.5, INF), lambda ops, x: ops.maximum(x, -0.5)),
    "maximum, bound first": ((-0.5, INF), lambda ops, x: ops.maximum(-0.5, x)),
    "minimum": ((-INF, 6.0), lambda ops, x: ops.minimum(x, 6.0)),
    "minimum, bound first": ((-INF, 6.0), lambda ops, x: ops.minimum(6.0, x)),
    "bound as large as x": ((-INF, 6.0), lambda ops, x: ops.minimum(x, np.full((2, 31), 6.0))),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_and_bounds_are_kept(name: str) -> None:
    expected, write = FORMS[name]
    mod = form(write, (2, 31))
    check_rewrite(mod, RULE, ["clip"], tolerance=0)
    (binding,) = [
        b for b in bindings_of(apply_rule(mod, RULE)[0]["main"]) if isinstance(b.value, tvm.ir.Call)
    ]
    assert bounds(binding.value) == expected


NEAR_MISSES: dict[str, tuple[str, Callable[[Ops, Expr], Expr]]] = {
    "bound is not one number": ("float32", lambda ops, x: ops.maximum(x, np.arange(31.0))),
    "a constant enlarges the tensor (expected (2, 31), found (4, 2, 31))": (
        "float32",
        lambda ops, x: ops.maximum(x, np.zeros((4, 1, 1))),
    ),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    dtype, write = NEAR_MISSES[reason]
    assert refusal(form(write, (2, 31), dtype=dtype), RULE) == reason


def test_integers_have_no_infinite_bound() -> None:
    mod = form(lambda ops, x: ops.maximum(x, tvm.relax.const(0, "int32")), (7,), dtype="int32")
    assert refusal(mod, RULE).startswith("dtype is not a float")
