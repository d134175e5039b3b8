# SPDX-License-Identifier: Apache-2.0
"""Loops and branches that are decided at run time, against XLA."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tvm
from jax import Array, lax
from tvm import relax

from arm_ext.frontends.stablehlo import control
from arm_ext.frontends.stablehlo.importer import import_stablehlo
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of, relax_functions
from tests.arm_ext.frontends.stablehlo.models import Weights, text
from tests.arm_ext.frontends.stablehlo.test_importer import check

X = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
_draw = Weights(7)
TABLE, SQUARE, HEAD = _draw(11, 8), _draw(4, 4), _draw(8, 11)


def collatz(x: Array, n: Array) -> Array:
    """A counter beside numbers; `n` and `x` stay what they are."""
    turn = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1, s[2] + x)  # noqa: E731
    return lax.while_loop(lambda s: s[0] != 1, turn, (n, 0, x))[1:]


def greedy(x: Array, n: Array) -> Array:
    """Tokens until one ends them: reads weights, and writes where it stands."""

    def turn(s: Any) -> Any:
        tokens, at = s
        seen = jnp.asarray(TABLE)[tokens] * (jnp.arange(9) < at)[:, None]
        return tokens.at[at].set(jnp.argmax(jnp.tanh(seen.sum(0)) @ HEAD).astype(jnp.int32)), at + 1

    first = jnp.zeros(9, jnp.int32).at[0].set(n)
    return lax.while_loop(lambda s: (s[1] < 9) & (s[0][s[1] - 1] != 3), turn, (first, jnp.array(1)))


def nested(x: Array, n: Array) -> Array:
    """A loop in a loop, a branch with a product in both, and what follows them."""

    def turn(i: Array, c: Array) -> Array:
        c = lax.while_loop(lambda s: s.sum() < i, lambda s: s + jnp.abs(x) + 0.5, c)
        return lax.cond(c[0] > 1, lambda c: SQUARE @ c, lambda c: c - x, c)

    y = lax.fori_loop(0, n, turn, x)
    return y * 2, lax.switch(n % 3, [lambda: y, lambda: SQUARE @ y, lambda: y + x]), x


def not_entered(x: Array, n: Array) -> Array:
    """A loop that never ends, in the branch that is not taken."""
    return lax.cond(n < 0, lambda: lax.while_loop(lambda s: s[0] < 9, lambda s: s * 0, x), lambda: x + n)


def long(x: Array, n: Array) -> Array:
    return lax.fori_loop(0, 9000, lambda i, c: c * 0.999 + x, x), lax.scan(
        lambda c, v: (c + v, c * v), x[0], jnp.tile(x, 300)
    )


@pytest.mark.parametrize(("function", "numbers"), [
    (collatz, (1, 2, 27)), (greedy, (0, 5)), (nested, (0, 4)), (not_entered, (2,)), (long, (1,)),
])  # fmt: skip
def test_it_is_decided_at_run_time(function: Callable[..., Any], numbers: tuple[int, ...]):
    imported = import_stablehlo(text(function, [X, np.int32(1)]), "m")
    check(imported, *([X, np.array(number, np.int32)] for number in numbers))


def decisions(mod: tvm.IRModule) -> int:
    return sum(isinstance(b.value, relax.If) for _, func in relax_functions(mod) for b in bindings_of(func))


@pytest.mark.parametrize(("most", "loops"), [(64, 0), (8, 1)])
def test_a_short_loop_is_unrolled(most: int, loops: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control, "MOST_UNROLLED", most)
    imported = import_stablehlo(text(lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x), [X]), "m")
    assert decisions(imported.mod) == loops
    check(imported, [X])


def test_cheap_branches_are_both_computed():
    function = lambda x, n: lax.cond(n > 0, lambda: x + 1, lambda: x * 2)  # noqa: E731
    assert decisions(import_stablehlo(text(function, [X, np.int32(1)]), "m").mod) == 0


def test_weights_in_a_loop_are_no_states():
    mod = import_stablehlo(text(greedy, [X, np.int32(1)]), "m").mod
    (loop,) = [func for gvar, func in relax_functions(mod) if gvar.name_hint.endswith("_loop")]
    shapes = Counter(tuple(int(n) for n in param.ty.shape) for param in loop.params)
    assert not shapes.keys() & {TABLE.shape, HEAD.shape}


def test_integers_are_divided_by_anything():
    a = np.array([7, -7, 0, -(2**31), 5], np.int32)
    imported = import_stablehlo(text(lambda a, b: (lax.div(a, b), lax.rem(a, b)), [a, a]), "m")
    check(imported, [a, np.array([0, 0, 0, -1, -2], np.int32)])
    assert run_on_host(imported.mod, [a, a * 0])[0].tolist() == [-1] * 5
    assert jax.default_backend() == "cpu"
