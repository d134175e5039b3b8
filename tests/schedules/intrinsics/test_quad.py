# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from schedules.intrinsics.quad import LAST, VectorStream, quad, quads
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, assembly, loops, model_so

ROWS = 31


def summing(first: int) -> tirx.PrimFunc:
    """Rows of four vectors, each with the second four of `start` added."""
    arguments = [((32,), "int32"), ((ROWS * 16,), "int32"), ((ROWS * 16,), "int32")]
    with kernel_function("summing", arguments) as f, quads():
        start, x, y = f.buffers
        with T.serial(i64(0), i64(ROWS)) as row:
            for v, vector in enumerate(quad(start, i64(16), first)):
                at = row * 16 + 4 * v
                store(y, vector + load(x, at, 4), at, 4)
    return f.prim_func


def copying(counts: tuple[int, ...]) -> tirx.PrimFunc:
    """Rows of as many vectors, by loads of `counts` vectors each, from the second vector of x on."""
    total = sum(counts)
    arguments = [((16 + ROWS * total * 16,), "int8"), ((ROWS * total * 16,), "int8")]
    with kernel_function(f"copying_{len(counts)}", arguments) as f, quads():
        x, y = f.buffers
        stream = VectorStream(x, i64(16))
        with T.serial(i64(0), i64(ROWS)) as row:
            done = 0
            for count in counts:
                for v, vector in enumerate(stream.next(count)):
                    store(y, vector, (row * total + done + v) * 16, 16)
                done += count
    return f.prim_func


def test_values_and_their_order(tmp_path: Path, board: Board):
    start, x = np.arange(-16, 16, dtype=np.int32), np.arange(ROWS * 16, dtype=np.int32)
    calls = [(summing(first), [start, x], x.shape, "int32") for first in (0, 6, LAST)]
    expected = [x + np.tile(start[16:], ROWS)] * len(calls)
    for counts in ((1, 2, 3, 4), (4,)):
        data = np.random.default_rng(0).integers(-128, 128, 16 + ROWS * sum(counts) * 16).astype(np.int8)
        calls.append((copying(counts), [data], (data.size - 16,), "int8"))
        expected.append(data[16:])
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_a_load_stays_inside_of_the_loop_and_goes_where_it_is_told():
    (loop,) = loops(assembly(summing(8), BASELINE))
    (found,) = (line for line in loop if line.startswith("ld1"))
    assert re.match(r"ld1\s+{ v8.4s, v9.4s, v10.4s, v11.4s }, \[x\d+\]$", found)


def test_a_stream_takes_no_other_instruction_than_its_load():
    (loop,) = loops(assembly(copying((4, 4)), BASELINE))
    advancing = r"ld1\s+{ v28.16b, v29.16b, v30.16b, v31.16b }, \[x\d+\], #64$"
    assert sum(re.match(advancing, line) is not None for line in loop) == 2
    # Beside it there are the stores, and what counts the rows.
    assert len(loop) - sum(line.startswith(("ld1", "st")) for line in loop) <= 3


def test_only_registers_and_counts_that_there_are():
    with pytest.raises(ValueError, match="register 30 is not one of 0, 2, 4"):
        summing(30)
    with pytest.raises(ValueError, match="a load of 5 vectors"):
        copying((5,))
