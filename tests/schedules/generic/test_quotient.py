# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx

from schedules.generic import quotient
from schedules.intrinsics.vector_f32 import Vector
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import NEON, model_so

LANES = 16
# Decimal, binary, near a power of two from either side, and of every size that quantisation has.
SCALES = (0.0371, 0.1, 0.05, 1 / 255, 6 / 255, 3.0, 0.25, 1.9999996, 1.0000001, 0.0078125001, 1e-5, 77.7)


def _kernel(scale, size):
    with kernel_function("f", [((size,), "float32"), ((size,), "float32")]) as function:
        source, target = function.buffers
        from tvm.tirx.script.builder import ir as T  # noqa: N812

        with T.serial(i64(0), i64(size // LANES)) as index:
            x = load(source, index * LANES, LANES)
            rounded = quotient.Rounded(x, scale, -128.0, 127.0)
            q = quotient.compute(Vector(LANES), x, rounded)
            value = tirx.call_llvm_pure_intrin("float32x16", "llvm.roundeven.v16f32", q)
            store(target, value, index * LANES, LANES)
    return function.prim_func


@pytest.mark.isa("dotprod")
def test_equals_division_rounding_and_limits(board, tmp_path):
    rng = np.random.default_rng(3)
    calls, expected = [], []
    for scale in SCALES:
        c = np.float32(scale)
        ties = (np.arange(-140, 140) + 0.5).astype(np.float32) * c
        near = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
        ends = np.array([np.inf, -np.inf, 3e38, -3e38, 1e-40, -1e-45, 0, -0.0], np.float32)
        x = np.concatenate([near, ends, rng.standard_normal(20000) * 60 * c]).astype(np.float32)
        x = x[: x.size // LANES * LANES]
        calls.append((_kernel(float(c), x.size), [x], x.shape, "float32"))
        with np.errstate(over="ignore"):
            expected.append(np.clip(np.rint(x / c), -128, 127))
    so = model_so(tmp_path / "model.so", calls, {**NEON, "mcpu": "cortex-a76", "mattr": []})
    actual = board.load(so).run([x for _, (x,), _, _ in calls])
    for scale, e, a in zip(SCALES, expected, actual, strict=True):
        np.testing.assert_array_equal(a, e, err_msg=str(scale))
