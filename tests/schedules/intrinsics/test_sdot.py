# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

from arm_ext.board import Board
from schedules.intrinsics import sdot
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.products import I8MM
from tests.schedules.programs import assembly, model_so

FORMS = {"sdot": ("int8", "int8"), "udot": ("uint8", "uint8"), "usdot": ("uint8", "int8")}


def dots(name: str, size: int) -> tirx.PrimFunc:
    """acc + a . b as vectors, then for each lane of `size` bytes of b; int32 [1 + size / 4, 4]."""
    left, right = FORMS[name]
    lanes = size // 4
    arguments = [((4,), "int32"), ((16,), left), ((16,), right), ((1 + lanes, 4), "int32")]
    with kernel_function(name, arguments) as function:
        acc, a, b = (
            load(buffer, i64(0), n) for buffer, n in zip(function.buffers[:3], (4, 16, 16), strict=True)
        )
        store(function.buffers[3], getattr(sdot, name)(acc, a, b), i64(0), 4)
        short = load(function.buffers[2], i64(0), size)
        for lane in range(lanes):
            value = getattr(sdot, f"{name}_lane")(acc, a, short, lane)
            store(function.buffers[3], value, i64(4 * (1 + lane)), 4)
    return function.prim_func


@pytest.mark.isa("i8mm")
def test_values_of_each_form_on_a_board(tmp_path: Path, board: Board):
    rng, calls, expected = np.random.default_rng(6), [], []
    for name, dtypes in FORMS.items():
        a, b = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, 16).astype(t) for t in dtypes)
        a[:4], b[:4] = np.iinfo(a.dtype).max, np.iinfo(b.dtype).min
        acc = rng.integers(-(2**30), 2**30, 4).astype(np.int32)
        fours, lanes = a.reshape(4, 4).astype(np.int64), b.reshape(4, 4).astype(np.int64)
        for size in (4, 8, 16):
            rows = [(fours * lanes).sum(-1), *(fours @ lanes[lane] for lane in range(size // 4))]
            expected.append(acc + np.stack(rows))
            calls.append((dots(name, size), [acc, a, b], (1 + size // 4, 4), "int32"))
    so = model_so(tmp_path / "model.so", calls, I8MM)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [8, 16])
def test_a_lane_is_an_index_of_the_instruction(name: str, size: int):
    lines = [line.split() for line in assembly(dots(name, size), I8MM).splitlines()]
    found = [line[-1] for line in lines if line and line[0] == name]
    assert sum("4b[" in operand for operand in found) == size // 4


def test_wrong_dtypes_are_refused():
    acc, signed = tirx.Var("acc", "int32x4"), tirx.Var("s", "int8x16")
    with pytest.raises(ValueError, match="udot: an operand is int8x16, expected uint8x16"):
        sdot.udot(acc, signed, signed)
