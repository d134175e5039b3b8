# SPDX-License-Identifier: Apache-2.0
"""Chains of operators that Vela miscompiles in one region are exact in several."""

import onnx
import pytest

from tests.arm_ext.ethosu.ops.one_operator import OneOperator, random_inputs
from tests.fuzz.graphs import Case
from tests.fuzz.npu import APART, npu_outcome_of

_STEP = 2.0**-12


def chain(first: str | None, last: str, dtype: str = "int16") -> onnx.ModelProto:
    """last(x + first(y)), all in the same steps, in which the sum saturates, but for the result of some."""
    one = OneOperator()

    def quantized(real: str) -> str:
        return one.dequantized(one.quantized(real, _STEP, 0, dtype), _STEP, 0, dtype)

    x, y = (one.data(3, 31, scale=_STEP, zero=0, dtype=dtype) for _ in "xy")
    total = quantized(one.node("Add", x, quantized(one.node(first, y)) if first else y))
    end = one.node(last, total, *([x] if last == "Max" else []))
    return one.model(one.quantized(end, _STEP if last == "Erf" else 2 * _STEP, 0, dtype), dtype=dtype)


@pytest.mark.parametrize(
    ("first", "last", "npu"),
    [
        ("Tanh", "Erf", "ethos-u85-512"),
        ("Tanh", "Identity", "ethos-u85-512"),
        (None, "Max", "ethos-u55-128"),
        (None, "Max", "ethos-u65-256"),
    ],
)
def test_chain_is_exact(first: str | None, last: str, npu: str):
    model = chain(first, last)
    outcome = npu_outcome_of(Case(model, tuple(random_inputs(model)), (), ()), [npu])
    assert outcome.fault is None
    assert any(APART in what and times for what, times in outcome.hits.items())
    assert outcome.definitions
