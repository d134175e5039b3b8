# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.integerize.choices import compared, is_choice
from relay_passes.integerize.context import Context, operator
from relay_passes.integerize.values import Quantized
from schedules.diagnostic import Diagnostic
from schedules.numerics.qdq import NUMERICS, requantize
from tests.relay_passes.integerize.qdq import Array, Body, Input, computed
from tests.schedules.numerics.routines import ODD_POWER, Per

SCALE, ZERO = 0.07, -5
VALUES = np.arange(-128, 128).astype(np.int8)
REAL = (VALUES.astype(np.float32) - np.float32(ZERO)) * np.float32(SCALE)
COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    name: getattr(np, name)
    for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
}


def context_of(*scales: float) -> tuple[Context, list[relax.Var]]:
    """Float variables that stand for int8 tensors with these scales."""
    context = Context(relax.BlockBuilder(), NUMERICS)
    found = []
    for index, scale in enumerate(scales):
        real = relax.Var(f"x{index}", relax.TensorType((256,), "float32"))
        value = relax.Var(f"q{index}", relax.TensorType((256,), "int8"))
        zero = np.array(ZERO, np.int64)
        context.quantized[real] = Quantized(value, np.array(scale, np.float32), zero, ())
        found.append(real)
    return context, found


def truths(call: relax.Call) -> np.ndarray:
    """What a comparison of int8 values with a constant gives for each of them."""
    return COMPARISONS[operator(call)](VALUES, call.args[1].value.numpy())


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("number", [float(REAL[140]), 0.1, -8.0])
def test_a_comparison_with_a_number_is_that_of_real_numbers(name: str, number: float):
    context, (x,) = context_of(SCALE)
    expected = COMPARISONS[name](REAL, np.float32(number))
    for call, mirrored in ((getattr(op, name)(x, relax.const(number)), False), (None, True)):
        if mirrored:
            names = {"greater": "less", "greater_equal": "less_equal"}
            swap = {**names, **{b: a for a, b in names.items()}}
            call = getattr(op, swap.get(name, name))(relax.const(number), x)
        found = compared(context, call)
        if expected.all() or not expected.any():
            assert found == Diagnostic.of("its result is the same for every input")
        else:
            np.testing.assert_array_equal(truths(found), expected)


def test_tensors_that_are_quantised_alike_compare_as_integers():
    context, (x, y) = context_of(SCALE, SCALE)
    found = compared(context, op.greater(x, y))
    assert operator(found) == "greater"
    assert [str(arg.name) for arg in found.args] == ["q0", "q1"]


def test_tensors_that_are_quantised_differently_do_not():
    context, (x, y) = context_of(SCALE, 0.09)
    found = compared(context, op.less(x, y))
    assert isinstance(found, Diagnostic)
    assert found.reason == "its operands have different scales or zero points"
    assert (found.limit, found.actual) == (
        "int8, scale 0.07, zero point -5", "int8, scale 0.09, zero point -5",
    )  # fmt: skip


def test_other_tensors_are_left_alone():
    context, (x,) = context_of(SCALE)
    assert compared(context, op.less(relax.Var("y", relax.TensorType((256,), "float32")), x)) is None


INDICES = np.array([[4, 0], [1, 6], [4, 5]])


def _written(into: Array, written: Array) -> Array:
    into = into.copy()
    into[tuple(INDICES.T)] = written
    return into


def _written_along(into: Array, written: Array) -> Array:
    into = into.copy()
    np.put_along_axis(into, INDICES.T, written, 1)
    return into


CHOICES: dict[str, tuple[Body, tuple[int, ...], Callable[[Array, Array], Array]]] = {
    "scatter_nd": (lambda _g, x, y: op.scatter_nd(x, relax.const(INDICES), y), (3,), _written),
    "scatter_elements": (
        lambda _g, x, y: op.scatter_elements(x, relax.const(INDICES.T), y, axis=1), (2, 3), _written_along,
    ),
    "where": (lambda _g, x, y: op.where(relax.const(np.arange(7) < 3), x, y), (5, 7),
              lambda a, b: np.where(np.arange(7) < 3, a, b)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("y", [ODD_POWER, Per(2.0 * ODD_POWER.scale, 3, "int8")], ids=str)
def test_a_choice_between_tensors_that_are_quantised_alike_is_one_of_integers(name: str, y: Per):
    body, shape, chosen = CHOICES[name]
    shapes = ((2, 7) if name == "scatter_elements" else (5, 7), shape)
    actual, values = computed(body, [Input(each, ODD_POWER) for each in shapes], y)
    q = chosen(*values)
    same = y == ODD_POWER
    expected = (
        q if same else requantize(q.astype(np.int64) - ODD_POWER.zero_point, np.float32(0.5), 3, "int8")
    )
    np.testing.assert_array_equal(actual, expected)


def test_what_is_added_where_it_is_written_is_no_choice():
    x, y = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in (("x", (5, 7)), ("y", (3,))))
    for reduction in ("update", "add"):
        assert is_choice(op.scatter_nd(x, relax.const(INDICES), y, reduction)) == (reduction == "update")
