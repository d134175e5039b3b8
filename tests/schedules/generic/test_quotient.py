# SPDX-License-Identifier: Apache-2.0
import re

import numpy as np
import pytest
from tvm import tirx
from tvm.relax import op

from schedules import generic
from schedules.cores import A64
from schedules.generic import quotient
from schedules.intrinsics.vector_f32 import Vector
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.generic.operators import lowered
from tests.schedules.programs import NEON, assembly, model_so

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


RUNTIME_SCALES = (*SCALES, 0.0, -0.1, np.inf, 1e-20, 1e20, 1e-38, 1.99999988, 3.99999976 / 256)
"""Also divisors that are divided by: of any kind, and of the significand that has all bits."""

SIZE = 1027


def _quantized(x, scale, zero_point):
    shifted = op.add(op.round(op.divide(x, scale)), op.astype(zero_point, "float32"))
    return op.astype(op.clip(shifted, 0, 255), "uint8")


@pytest.mark.isa("dotprod")
def test_a_quotient_by_a_value_of_the_run_equals_division(board, tmp_path):
    func = lowered(_quantized, ((SIZE,), "float32"), ((), "float32"), ((), "uint8"))
    scheduled = generic.schedule(func, A64).func.with_attr("global_symbol", "f")
    assert re.search(r"fml[as]\s+v", assembly(scheduled, NEON)), "no quotient by multiplications"
    rng, calls, expected = np.random.default_rng(4), [], []
    for scale in RUNTIME_SCALES:
        c, zero_point = np.float32(scale), np.uint8(rng.integers(256))
        with np.errstate(all="ignore"):
            ties = (np.arange(-128, 128) + 0.5).astype(np.float32) * c
            ends = np.array([3e38, -3e38, 1e-40, -1e-45], np.float32)
            x = np.concatenate([ends, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
            x = np.resize(np.clip(x, -3e38, 3e38), SIZE).astype(np.float32)
            x[x == 0] = 1
            whole = np.rint(x / c)
        calls.append((scheduled, [x, np.array(c), np.array(zero_point)], x.shape, "uint8"))
        expected.append(np.clip(whole + np.float32(zero_point), 0, 255).astype(np.uint8))
    so = model_so(tmp_path / "model.so", calls, {**NEON, "mcpu": "cortex-a76", "mattr": []})
    actual = board.load(so).run([value for _, values, _, _ in calls for value in values])
    for scale, e, a in zip(RUNTIME_SCALES, expected, actual, strict=True):
        np.testing.assert_array_equal(a, e, err_msg=str(scale))
