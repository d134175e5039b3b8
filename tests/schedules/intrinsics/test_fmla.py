# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx

from schedules.intrinsics.fmla import fmla_lane
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import NEON, assembly, run_on_host


def four_lanes() -> tirx.PrimFunc:
    """out[lane] = acc + vector * by[lane], for each lane."""
    with kernel_function("lanes", [((4,), "float32")] * 3 + [((4, 4), "float32")]) as function:
        acc, vector, by = (load(buffer, i64(0), 4) for buffer in function.buffers[:3])
        for lane in range(4):
            store(function.buffers[3], fmla_lane(acc, vector, by, lane), i64(4 * lane), 4)
    return function.prim_func


def test_values_are_rounded_once():
    # 1 + 2**-12 squared is 1 + 2**-11 + 2**-24: the last term is lost if the product is rounded on its own.
    close = np.float32(1 + 2.0**-12)
    acc, vector = np.full(4, -1, np.float32), np.full(4, close, np.float32)
    by = np.array([close, 1, 2, -3], np.float32)
    actual = run_on_host(four_lanes(), [acc, vector, by], (4, 4), "float32")
    expected = acc.astype(np.float64) + vector.astype(np.float64) * by.astype(np.float64)[:, None]
    np.testing.assert_array_equal(actual, expected.astype(np.float32))
    assert expected[0, 0] != np.float32(close * close) - 1


def test_the_instruction_is_emitted_with_its_lane():
    asm = assembly(four_lanes(), NEON)
    fmla = [line.split() for line in asm.splitlines() if line.strip().startswith("fmla")]
    assert sorted(line[-1][-4:] for line in fmla) == ["s[0]", "s[1]", "s[2]", "s[3]"] or len(fmla) == 4
    assert "dup" not in asm


def test_wrong_dtypes_are_refused():
    vector, half = tirx.Var("v", "float32x4"), tirx.Var("h", "float16x8")
    with pytest.raises(ValueError, match="vector is float16x8, expected float32x4"):
        fmla_lane(vector, half, vector, 0)
    with pytest.raises(ValueError, match="by is float16x8, expected float32x4 or float32"):
        fmla_lane(vector, vector, half, 0)
