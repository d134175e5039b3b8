# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

from arm_ext.board import Board
from schedules.intrinsics.fmla_f16 import fmla_lane, fmlal, fmul_lane, widened
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import NEON, assembly, model_so


def by_lane() -> tirx.PrimFunc:
    """out[lane] = acc + vector * by[lane], and vector * by[lane], for each lane."""
    with kernel_function("lanes", [((8,), "float16")] * 3 + [((16, 8), "float16")]) as function:
        acc, vector, by = (load(buffer, i64(0), 8) for buffer in function.buffers[:3])
        for lane in range(8):
            store(function.buffers[3], fmla_lane(acc, vector, by, lane), i64(8 * lane), 8)
            store(function.buffers[3], fmul_lane(vector, by, lane), i64(64 + 8 * lane), 8)
    return function.prim_func


def into_binary32() -> tirx.PrimFunc:
    """out = (acc + a * b) and a, each in binary32."""
    arguments = [((8,), "float32"), ((8,), "float16"), ((8,), "float16"), ((2, 8), "float32")]
    with kernel_function("wide", arguments) as function:
        acc, a, b, out = function.buffers
        x, y = load(a, i64(0), 8), load(b, i64(0), 8)
        for half in range(2):
            store(out, fmlal(load(acc, i64(4 * half), 4), x, y, half), i64(4 * half), 4)
            store(out, widened(x, half), i64(8 + 4 * half), 4)
    return function.prim_func


@pytest.mark.isa("fullfp16", "fp16fml")
def test_values(tmp_path: Path, board: Board):
    rng = np.random.default_rng(3)
    acc, vector, by = (rng.normal(size=8).astype(np.float16) for _ in range(3))
    wide = rng.normal(size=8).astype(np.float32)
    calls = [
        (by_lane(), [acc, vector, by], (16, 8), "float16"),
        (into_binary32(), [wide, vector, by], (2, 8), "float32"),
    ]
    so = model_so(tmp_path / "model.so", calls, NEON)
    lanes, sums = board.load(so).run([acc, vector, by, wide, vector, by])
    # Products of binary16 are exact in float64, and so are these sums.
    products = vector.astype(np.float64) * by.astype(np.float64)[:, None]
    np.testing.assert_array_equal(lanes[:8], (acc.astype(np.float64) + products).astype(np.float16))
    np.testing.assert_array_equal(lanes[8:], products.astype(np.float16))
    exact = wide.astype(np.float64) + vector.astype(np.float64) * by.astype(np.float64)
    np.testing.assert_array_equal(sums[0], exact.astype(np.float32))
    np.testing.assert_array_equal(sums[1], vector.astype(np.float32))


def test_the_instructions_are_emitted_with_their_lanes():
    lines = [line.split() for line in assembly(by_lane(), NEON).splitlines()]
    for name in ("fmla", "fmul"):
        found = {line[-1] for line in lines if line and line[0] == name}
        assert {lane.partition(".")[2] for lane in found} == {f"h[{lane}]" for lane in range(8)}
    assert not any(line and line[0] == "dup" for line in lines)
    wide = [line.split()[0] for line in assembly(into_binary32(), NEON).splitlines() if line.split()]
    assert {"fmlal", "fmlal2", "fcvtl", "fcvtl2"} <= set(wide)


def test_wrong_dtypes_are_refused():
    narrow, wide = tirx.Var("n", "float16x8"), tirx.Var("w", "float32x4")
    with pytest.raises(ValueError, match="fmla_lane: acc is float32x4, expected float16x8"):
        fmla_lane(wide, narrow, narrow, 0)
    with pytest.raises(ValueError, match="fmul_lane: by is float32x4, expected float16x8"):
        fmul_lane(narrow, wide, 0)
    with pytest.raises(ValueError, match="fmlal: acc is float16x8, expected float32x4"):
        fmlal(narrow, narrow, narrow, 0)
