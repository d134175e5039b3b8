# SPDX-License-Identifier: Apache-2.0
"""Integers are shifted by any count."""

import numpy as np
import pytest
from tvm import relax

from arm_ext.pipeline.selftest import run_on_host
from tests.relay_passes.graphs import Net, tensor

TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    limits, width = np.iinfo(dtype), np.dtype(dtype).itemsize * 8
    values = np.array([limits.min, limits.max, 1, 0, 77, limits.max // 3], dtype)
    counts = [0, 1, width - 1, width, width + 1, limits.max]
    counts = np.array(counts + ([-1, limits.min] if limits.min else []), dtype)
    return np.repeat(values, counts.size), np.tile(counts, values.size)


def wanted(a: np.ndarray, s: np.ndarray, left: bool) -> np.ndarray:
    width = a.itemsize * 8
    inside = [0 <= int(count) < width for count in s]
    if left:
        found = [(int(x) << int(n)) % 2**width if ok else 0 for x, n, ok in zip(a, s, inside, strict=True)]
        return np.array(found, f"uint{width}").view(a.dtype)
    found = [int(x) >> (int(n) if ok else width) for x, n, ok in zip(a, s, inside, strict=True)]
    return np.array(found, a.dtype)


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("held", [False, True])
def test_every_count_has_a_value(dtype: str, held: bool):
    a, s = pairs(dtype)
    net, x, n = Net(), tensor("x", a.size, dtype=dtype), tensor("n", a.size, dtype=dtype)
    count = relax.const(s, dtype) if held else n
    mod = net.module(
        [x, n],
        lambda: relax.Tuple(
            [
                net.emit("left", relax.op.left_shift(x, count)),
                net.emit("right", relax.op.right_shift(x, count)),
            ]
        ),
    )
    left, right = run_on_host(mod, [a, s])
    np.testing.assert_array_equal(left, wanted(a, s, left=True))
    np.testing.assert_array_equal(right, wanted(a, s, left=False))
