# SPDX-License-Identifier: Apache-2.0
"""Floats times and by the constant 0, as IEEE 754 has them."""

import numpy as np
import pytest
from tvm import relax

from arm_ext.pipeline.selftest import run_on_host
from tests.relay_passes.graphs import Net, tensor

X = [-1, 0, 1, np.nan, 2, -0.0, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("shape", [(), (1,), (8,)])
def test_with_zero(dtype: str, zero: float, shape: tuple[int, ...]):
    value = np.full(shape, zero, dtype)
    net, x, number = Net(), tensor("x", len(X), dtype=dtype), relax.const(value, dtype)
    forms = {
        "x / 0": (relax.op.divide, [x, number], np.divide(np.array(X, dtype), value)),
        "0 / x": (relax.op.divide, [number, x], np.divide(value, np.array(X, dtype))),
        "x * 0": (relax.op.multiply, [x, number], np.array(X, dtype) * value),
        "0 * x": (relax.op.multiply, [number, x], np.array(X, dtype) * value),
    }
    mod = net.module(
        [x], lambda: relax.Tuple([net.emit(name, op(*args)) for name, (op, args, _) in forms.items()])
    )
    for found, (name, (_, _, wanted)) in zip(
        run_on_host(mod, [np.array(X, dtype)]), forms.items(), strict=True
    ):
        np.testing.assert_array_equal(found, wanted, name)
        whole = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[whole]), np.signbit(wanted[whole]), name)
