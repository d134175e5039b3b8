# SPDX-License-Identifier: Apache-2.0
"""Integers divide by anything, and nothing ends the process."""

import numpy as np
import pytest
from tvm import relax
from tvm.ir import IRModule

from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize.define_division import define_division, divides_integers, quotient, remainder
from relay_passes.ir.sources import bindings_of, name_bindings, unnamed_calls

TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DEFINITIONS = {
    "divide": lambda a, b: quotient(a, b),
    "floor_divide": lambda a, b: quotient(a, b, floor=True),
    "mod": lambda a, b: remainder(a, b),
    "floor_mod": lambda a, b: remainder(a, b, floor=True),
}


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Each of the numbers at the ends and around 0 by each."""
    limits = np.iinfo(dtype)
    signed = [-1, -2, -7, limits.min + 1] if limits.min else []
    numbers = np.array([limits.min, 0, 1, 2, 7, limits.max, limits.max - 1, *signed], dtype)
    return np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size)


def divided(dtype: str, operators: list[str], count: int, divisor: np.ndarray | None = None) -> IRModule:
    a, b = (relax.Var(name, relax.TensorType((count,), dtype)) for name in "ab")
    params = [a] if divisor is not None else [a, b]
    builder, names = relax.BlockBuilder(), {}
    with builder.function("main", params):
        with builder.dataflow():
            given = b if divisor is None else relax.const(divisor, dtype)
            values = [builder.emit(getattr(relax.op, operator)(a, given)) for operator in operators]
            names = dict(zip(values, operators, strict=True))
            result = builder.emit_output(relax.Tuple(values))
        builder.emit_func_output(result)
    mod = builder.get()
    mod["main"] = name_bindings(mod["main"], names)
    return mod


@pytest.mark.parametrize("dtype", TYPES)
def test_every_divisor_has_a_quotient_and_a_remainder(dtype: str):
    a, b = pairs(dtype)
    found = run_on_host(divided(dtype, list(DEFINITIONS), a.size), [a, b])
    for (name, define), values in zip(DEFINITIONS.items(), found, strict=True):
        np.testing.assert_array_equal(values, define(a, b), name)


def test_what_no_processor_traps_at_is_what_all_others_compute():
    a, b = (numbers.astype(object) for numbers in pairs("int32"))
    exact = (b != 0) & ~((a == -(2**31)) & (b == -1))
    a, b = a[exact], b[exact]
    whole = np.array(
        [int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b, strict=True)]
    )
    given = a.astype("int32"), b.astype("int32")
    np.testing.assert_array_equal(quotient(*given), whole)
    np.testing.assert_array_equal(remainder(*given), a - whole * b)
    np.testing.assert_array_equal(quotient(*given, floor=True), a // b)
    np.testing.assert_array_equal(remainder(*given, floor=True), a % b)


def test_least_and_zero():
    least, zero = np.array([-128], np.int8), np.array([0], np.int8)
    assert quotient(least, np.array([-1], np.int8)) == -128
    assert remainder(least, np.array([-1], np.int8)) == 0
    assert quotient(least, zero) == 0
    assert remainder(least, zero) == -128


@pytest.mark.parametrize("divisor", [[3, -2, 5], [1, 1, 1]])
def test_constant_divisor_that_is_safe_costs_nothing(divisor: list[int]):
    mod = divided("int32", ["divide", "floor_mod"], 3, np.array(divisor, np.int32))
    assert not divides_integers(mod)
    assert define_division(mod).same_as(mod)


@pytest.mark.parametrize("divisor", [[3, 0, 5], [3, -1, 5]])
def test_constant_divisor_that_is_not_is_guarded(divisor: list[int]):
    b = np.array(divisor, np.int32)
    mod = divided("int32", ["divide", "floor_mod"], 3, b)
    assert divides_integers(mod)
    a = np.array([-(2**31)] * 3, np.int32)
    quotients, remainders = run_on_host(mod, [a])
    np.testing.assert_array_equal(quotients, quotient(a, b))
    np.testing.assert_array_equal(remainders, remainder(a, b, floor=True))


def test_constants_are_folded_without_a_trap():
    mod = divided("int64", ["divide"], 2, np.array([0, -1], np.int64))
    a = relax.const(np.array([5, -(2**63)], np.int64), "int64")
    main = mod["main"].bind_params({mod["main"].params[0]: a})
    mod["main"] = relax.Function([], main.body, main.ret_ty).with_attr("global_symbol", "main")
    (found,) = run_on_host(mod, [])
    assert found.tolist() == [0, -(2**63)]


def test_new_calls_have_the_name_of_the_division():
    mod = define_division(divided("int8", ["divide"], 3))
    assert unnamed_calls(mod) == []
    assert len(bindings_of(mod["main"])) > 5


def test_floats_are_left_alone():
    assert not divides_integers(divided("float32", ["divide", "mod"], 3))
