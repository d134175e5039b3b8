# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from arm_ext.pipeline import codegen
from schedules.intrinsics.opaque import opaque_offset, opaque_view, opaques
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, as_lowered, assembly, loops, model_so

ROWS, PITCH, LOADS, APART = 31, 100, 12, 8


def summing(how: str) -> tirx.PrimFunc:
    """Sums of vectors of each row of `x`, which are `APART` elements apart, the last row first."""
    with kernel_function(f"summing_{how}", [((ROWS * PITCH,), "float32"), ((ROWS * 4,), "float32")]) as f:
        x, y = f.buffers
        with opaques(), T.serial(i64(0), i64(ROWS)) as row:
            begin = (ROWS - 1 - row) * PITCH
            if how == "view":
                x, begin = opaque_view(x, begin), i64(0)
            elif how == "offset":
                begin = opaque_offset(begin)
            total = load(x, begin, 4)
            for number in range(1, LOADS):
                total = T.Bind(total + load(x, begin + APART * number, 4))
            store(y, total, row * 4, 4)
    return f.prim_func


def test_values(tmp_path: Path, board: Board):
    x = np.arange(ROWS * PITCH, dtype=np.float32)
    rows = x.reshape(ROWS, PITCH)[::-1]
    expected = sum(rows[:, APART * number : APART * number + 4] for number in range(LOADS))
    calls = [(summing(how), [x], (ROWS * 4,), "float32") for how in ("view", "offset")]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    for actual in board.load(so).run([x, x]):
        np.testing.assert_array_equal(actual.reshape(ROWS, 4), expected)


@pytest.mark.parametrize("how", ["view", "offset"])
def test_the_address_is_hidden_until_instructions_are_selected(how: str):
    func, target = as_lowered(summing(how)), tvm.target.Target(BASELINE)
    mod = tvm.IRModule({func.attrs["global_symbol"]: func})
    built = tvm.tirx.build(mod, target=target, pipeline=codegen.registered())
    assert "llvm.launder.invariant.group" in built.inspect_source("ll")
    (loop,) = loops(assembly(summing(how), BASELINE))
    assert not any(line.startswith("bl ") for line in loop)
    assert sum(line.startswith("ldr q") for line in loop) == LOADS


def test_a_view_costs_no_instruction():
    plain, view = (loops(assembly(summing(how), BASELINE))[0] for how in ("plain", "view"))
    assert len(view) <= len(plain)
