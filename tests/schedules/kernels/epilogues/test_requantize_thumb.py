# SPDX-License-Identifier: Apache-2.0
"""The requantisation in integers against its definition in binary32, on this machine."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.kernels.epilogues import requantize_thumb
from schedules.kernels.epilogues.requantize import Requantization
from schedules.tir.emit import i64, kernel_function, load

COUNT = 1 << 16
TO = Requantization(-3, -128, 127, "int8")


@pytest.fixture(scope="module", params=[16, 22, requantize_thumb.MOST_BITS])
def compiled(request: pytest.FixtureRequest) -> tuple[int, Callable[..., np.ndarray]]:
    """The exponent that bounds accumulators, and the function of arrays of accumulators and multipliers."""
    bits = request.param
    arguments = [((COUNT,), "int32"), ((2 * COUNT,), "float32"), ((COUNT,), "int8")]
    with kernel_function("requantize", arguments) as function, requantize_thumb.definitions():
        acc, scales, y = function.buffers
        with T.serial(i64(0), i64(COUNT)) as n:
            constants = [load(scales, n * 2 + i64(k), 1) for k in range(2)]
            value = requantize_thumb.requantized(load(acc, n, 1), constants, TO, "convert", bits)
            T.buffer_store(y, value, [n])
    module = tvm.tirx.build(tvm.IRModule({"requantize": function.prim_func}), target="llvm")

    def run(acc: np.ndarray, m: np.ndarray) -> np.ndarray:
        found = tvm.runtime.empty((COUNT,), "int8")
        module["requantize"](
            tvm.runtime.tensor(acc), tvm.runtime.tensor(requantize_thumb.scales(m, "convert")), found
        )
        return found.numpy()

    return bits, run


def defined(acc: np.ndarray, m: np.ndarray) -> np.ndarray:
    """The definition of `qdq`: binary32, half to even."""
    scaled = np.rint(acc.astype(np.float32) * m).astype(np.int64)
    return np.clip(scaled + TO.zero_point, TO.low, TO.high).astype(np.int8)


def pairs(bits: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Accumulators and multipliers whose products are random, or within two last places of a half-integer."""
    limit = (1 << rng.integers(1, bits + 1, COUNT)) - 1
    acc = rng.integers(-limit, limit + 1).astype(np.int32)
    near = rng.integers(-140, 140, COUNT) + 0.5
    with np.errstate(divide="ignore"):
        m = np.abs(np.where(rng.random(COUNT) < 0.5, near, rng.normal(0, 60, COUNT)) / acc).astype(np.float32)
    m = np.where(np.isfinite(m) & (m > 0), m, np.float32(0.25))
    steps = rng.integers(-2, 3, COUNT).astype(np.int32)
    return acc, (m.view(np.int32) + steps).view(np.float32)


def test_random_and_adversarial_pairs_are_as_defined(
    compiled: tuple[int, Callable[..., np.ndarray]],
) -> None:
    bits, run = compiled
    rng = np.random.default_rng(bits)
    near = 0
    for _ in range(8):
        acc, m = pairs(bits, rng)
        exact = np.abs(acc) * m.astype(np.float64) % 1
        near += int((np.abs(exact - 0.5) < 1e-4).sum())
        np.testing.assert_array_equal(run(acc, m), defined(acc, m))
    assert near > COUNT


@pytest.mark.long
def test_a_billion_pairs_are_as_defined(compiled: tuple[int, Callable[..., np.ndarray]]) -> None:
    bits, run = compiled
    rng = np.random.default_rng(bits + 100)
    for _ in range(10**9 // 3 // COUNT):
        acc, m = pairs(bits, rng)
        np.testing.assert_array_equal(run(acc, m), defined(acc, m))
