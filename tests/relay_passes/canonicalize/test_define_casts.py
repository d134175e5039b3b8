# SPDX-License-Identifier: Apache-2.0
"""Every float is an integer, and the same one everywhere."""

import numpy as np
import pytest
from tvm import relax
from tvm.ir import IRModule

from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, build, last, run_phases
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import resolve
from relay_passes.canonicalize.define_casts import cast
from tests.relay_passes.graphs import Net, tensor

TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ("float16", "float32", "float64")


def numbers(dtype: str) -> np.ndarray:
    """What no integer is, the ends of all integers and what is around them; more than a vector of them."""
    ends = [2.0**n + d for n in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 1)]
    values = [np.nan, np.inf, 1e30, 300.7, 0.5, 0.0, 1.5, 255.9, *ends]
    with np.errstate(over="ignore"):
        return np.array([*values, *(-value for value in values)]).astype(dtype)


def casts(dtype: str, data: np.ndarray | None = None) -> IRModule:
    """A module that gives its input, or what is constant, as each integer."""
    net = Net()
    x = tensor("x", numbers(dtype).size, dtype=dtype)
    source = x if data is None else relax.const(data, dtype)
    if data is None:
        return net.module([x], lambda: relax.Tuple([net.emit(t, relax.op.astype(source, t)) for t in TYPES]))
    return net.module(
        [x],
        lambda: relax.Tuple(
            [
                net.emit(f"{t}:sum", relax.op.add(net.emit(t, relax.op.astype(source, t)), _zero(net, x, t)))
                for t in TYPES
            ]
        ),
    )


def _zero(net: Net, x: relax.Expr, dtype: str) -> relax.Expr:
    """Zeros that are no constants."""
    return net.emit(f"{dtype}:zero", relax.op.astype(net.emit("not", relax.op.not_equal(x, x)), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float_is_an_integer(dtype: str):
    x = numbers(dtype)
    for kind, found in zip(TYPES, run_on_host(casts(dtype), [x]), strict=True):
        np.testing.assert_array_equal(found, cast(x, kind), kind)


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_are_folded_to_the_same(dtype: str):
    x = numbers(dtype)
    for kind, found in zip(TYPES, run_on_host(casts(dtype, x), [np.ones_like(x)]), strict=True):
        np.testing.assert_array_equal(found, cast(x, kind), kind)


def test_the_definition():
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.7, -1.5, 2.0**63], np.float32)
    least, greatest = -(2**31), 2**31 - 1
    assert cast(x, "int32").tolist() == [0, greatest, least, greatest, least, 300, -1, greatest]
    assert cast(x, "uint32").tolist() == [0, 2**32 - 1, 0, 3_000_000_000, 0, 300, 0, 2**32 - 1]
    assert cast(x, "int8").tolist() == [0, -1, 0, -1, 0, 44, -1, -1]
    assert cast(x, "uint8").tolist() == [0, 255, 0, 255, 0, 44, 255, 255]
    assert cast(x, "int64").tolist()[-1] == 2**63 - 1


def test_a_cast_is_one_instruction():
    net = Net()
    x = tensor("x", 64)
    mod = net.module([x], lambda: net.emit("cast", relax.op.astype(x, "int32")))
    profile = resolve("arm")
    planned = last(run_phases(PhaseResult(mod), PhaseOptions(profile))).mod
    text = build(planned, profile).mod.imports[0].inspect_source("asm")
    converted = [line.split() for line in text.splitlines() if "fcvt" in line]
    assert converted
    assert {words[0] for words in converted} == {"fcvtzs"}
    assert not any(name in text for name in ("fcmp", "fmaxnm", "fminnm", "fcsel"))
