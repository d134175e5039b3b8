# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr

from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rules.scale_scores import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, refusal
from tests.relay_passes.graphs import operators

Q, K, MASK = (1, 2, 9, 8), (1, 2, 8, 7), (9, 7)
# The rule's bound for a score: 8 terms of at most 8 · 8 · 0.36 each; softmax, at most 1, changes by no more than
# its argument does.
TOLERANCE = (8 + 3) * EPS * 8 * 8 * 8 * 0.36
Write = Callable[..., Expr]


def _scores(ops: Ops, q: Expr, k: Expr, a: float | np.ndarray | None, b: float | np.ndarray | None) -> Expr:
    return ops.matmul(q if a is None else ops.multiply(q, a), k if b is None else ops.multiply(b, k))


def _softmax(a: float | np.ndarray | None, b: float | np.ndarray | None, axis: int = -1) -> Write:
    return lambda ops, q, k: ops("nn.softmax", _scores(ops, q, k, a, b), axis=axis)


def _masked(a: float | None, b: float | None) -> Write:
    return lambda ops, q, k, m: ops("nn.softmax", ops.add(_scores(ops, q, k, a, b), m))


# 0.595 is the fourth root of 1 / 8, as torch scales each factor for eight channels; a head's 64 give a power of two.
SCALES = [(0.595, 0.595), (0.354, None), (None, 0.354)]


@pytest.mark.parametrize("scales", SCALES)
def test_values_are_kept(scales: tuple[float | None, float | None]) -> None:
    check_rewrite(form(_softmax(*scales), Q, K), RULE, ["matmul", "multiply", "nn.softmax"], TOLERANCE)


@pytest.mark.parametrize("scales", SCALES)
def test_values_are_kept_under_a_mask(scales: tuple[float | None, float | None]) -> None:
    after = ["matmul", "multiply", "add", "nn.softmax"]
    check_rewrite(form(_masked(*scales), Q, K, MASK), RULE, after, TOLERANCE)


def test_the_scale_is_the_product_and_the_axis_is_kept() -> None:
    mod, _ = apply_rule(form(_softmax(0.5, 0.25, axis=2), Q, K), RULE)
    multiply, softmax = (b.value for b in bindings_of(mod["main"])[1:3])
    assert float(multiply.args[1].value.numpy()) == 0.125
    assert int(softmax.attrs.axis) == 2


def _shared(ops: Ops, q: Expr, k: Expr) -> Expr:
    scaled = ops.multiply(q, 0.5)
    return ops.matmul(ops("nn.softmax", ops.matmul(scaled, k)), scaled)


NEAR_MISSES: dict[str, tuple[tuple[int, ...], Write]] = {
    "scale of q is not one number": (Q, _softmax(np.arange(8.0), 0.5)),
    "scale of k is not one number": (Q, _softmax(None, np.arange(7.0))),
    "scale of q enlarges the tensor": ((9, 8), _softmax(np.full((1, 1, 1, 1), 0.5), None)),
    "multiply is also needed by matmul": (Q, _shared),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    shape, write = NEAR_MISSES[reason]
    keys = (1, 2, 8, 9) if write is _shared else K
    assert refusal(form(write, shape, keys), RULE) == reason


def test_half_precision_is_left_in_its_range() -> None:
    half = relax.const(np.float16(0.5))
    mod = form(
        lambda ops, q, k: ops("nn.softmax", ops.matmul(ops.multiply(q, half), k)), Q, K, dtype="float16"
    )
    assert refusal(mod, RULE) == "unscaled products may overflow (expected float32, float64, found float16)"


def test_a_product_that_is_not_normalised_is_left() -> None:
    mod = form(lambda ops, q, k: ops("nn.relu", _scores(ops, q, k, 0.5, None)), Q, K)
    assert explain(mod, RULE).applied == ()


def test_a_factor_quantised_by_itself_is_left() -> None:
    def write(ops: Ops, q: Expr, k: Expr) -> Expr:
        scale, zero = relax.const(np.float32(0.5)), relax.const(np.int8(3))
        stored = ops.quantize(ops.multiply(q, 0.5), scale, zero, axis=0, out_dtype="int8")
        return ops("nn.softmax", ops.matmul(ops.dequantize(stored, scale, zero, axis=0), k))

    mod = form(write, Q, K)
    after, _ = apply_rule(mod, RULE)
    tvm.ir.assert_structural_equal(after, mod)
    assert "quantize" in operators(after["main"])
