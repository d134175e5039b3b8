# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.integerize.choices import compared
from relay_passes.integerize.context import Context, operator
from relay_passes.integerize.values import Quantized, Refusal
from schedules.numerics.qdq import NUMERICS

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
            assert found == Refusal("it is the same for every input")
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
    assert isinstance(found, Refusal)
    assert found.reason == "its operands are quantised differently"
    assert (found.limit, found.actual) == (
        "int8, scale 0.07, zero point -5", "int8, scale 0.09, zero point -5",
    )  # fmt: skip


def test_other_tensors_are_left_alone():
    context, (x,) = context_of(SCALE)
    assert compared(context, op.less(relax.Var("y", relax.TensorType((256,), "float32")), x)) is None
