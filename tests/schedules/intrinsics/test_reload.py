# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from schedules.intrinsics.reload import COUNTS, reloaded, reloads
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, assembly, loops, model_so

ROWS = 31


def summing(vectors: int) -> tirx.PrimFunc:
    """Rows of that many vectors, each with the second so many of `start` added."""
    lanes = 4 * vectors
    arguments = [((2 * lanes,), "int32"), ((ROWS * lanes,), "int32"), ((ROWS * lanes,), "int32")]
    with kernel_function("summing", arguments) as f, reloads():
        start, x, y = f.buffers
        with T.serial(i64(0), i64(ROWS)) as row:
            total = T.Bind(reloaded(start, i64(lanes), vectors)) + load(x, row * lanes, lanes)
            store(y, total, row * lanes, lanes)
    return f.prim_func


def test_values_and_their_order(tmp_path: Path, board: Board):
    calls, expected = [], []
    for vectors in COUNTS:
        start = np.arange(-4 * vectors, 4 * vectors, dtype=np.int32)
        x = np.arange(ROWS * 4 * vectors, dtype=np.int32)
        calls.append((summing(vectors), [start, x], x.shape, "int32"))
        expected.append(x + np.tile(start[4 * vectors :], ROWS))
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("vectors", COUNTS)
def test_the_loads_stay_inside_of_the_loop(vectors: int):
    (loop,) = loops(assembly(summing(vectors), BASELINE))
    # Those of `start`, and those of x.
    assert sum(line.startswith("ldp q") for line in loop) == vectors


def test_only_counts_that_there_is_code_for():
    with pytest.raises(ValueError, match="reload of 3 vectors"):
        summing(3)
