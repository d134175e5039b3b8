# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import ir, tirx

from arm_ext.board import Board
from schedules.intrinsics import narrow
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, assembly, model_so

FLOATS = np.array([0.5, 1.5, -0.5, -2.5, 3e9, -3e9, 2.0**24 + 2, -0.0], np.float32)
WORDS = np.array([32767, 32768, -32768, -32769, 2**31 - 1, -(2**31), 0, -1], np.int32)
FACTORS = np.array([1 << 30, 2**31 - 1, 5, 1 << 30], np.int32)
HALVES = np.array([127, 128, -128, -129, 32767, -32768, 255, 256], np.int16)

# (instruction, what emits it, inputs, what it should give)
CASES: dict[str, tuple[str, Callable[..., ir.Expr], list[np.ndarray], np.ndarray]] = {
    "fcvtns": (
        "fcvtns",
        narrow.fcvtns,
        [FLOATS[:4]],
        np.array([0, 2, 0, -2], np.int32),
    ),
    "fcvtns saturates": (
        "fcvtns",
        narrow.fcvtns,
        [FLOATS[4:]],
        np.array([2**31 - 1, -(2**31), 2**24 + 2, 0], np.int32),
    ),
    "fmulx": ("fmulx", narrow.fmulx, [FLOATS[:4], FLOATS[4:]], FLOATS[:4] * FLOATS[4:]),
    "sqxtn16": ("sqxtn", narrow.sqxtn16, [WORDS[:4]], np.array([32767, 32767, -32768, -32768], np.int16)),
    "int8": (
        "sqxtn",
        lambda x: narrow.narrow8(x, "int8"),
        [HALVES],
        np.clip(HALVES, -128, 127).astype(np.int8),
    ),
    "uint8": (
        "sqxtun",
        lambda x: narrow.narrow8(x, "uint8"),
        [HALVES],
        np.clip(HALVES, 0, 255).astype(np.uint8),
    ),
    "addp16": (
        "addp",
        narrow.addp16,
        [HALVES, HALVES[::-1].copy()],
        np.array([255, -257, -1, 511, 511, -1, -257, 255], np.int16),
    ),
    "sqdmulh": (
        "sqdmulh",
        narrow.sqdmulh,
        [WORDS[4:], FACTORS],
        np.array([2**30 - 1, -(2**31) + 1, 0, -1], np.int32),
    ),
    "sqrdmulh": (
        "sqrdmulh",
        narrow.sqrdmulh,
        [WORDS[4:], FACTORS],
        np.array([2**30, -(2**31) + 1, 0, 0], np.int32),
    ),
    "sqshl": (
        "sqshl",
        lambda x: narrow.sqshl(x, 2),
        [WORDS[4:]],
        np.clip(WORDS[4:].astype(np.int64) * 4, -(2**31), 2**31 - 1).astype(np.int32),
    ),
    "srshr": (
        "srshr",
        lambda x: narrow.srshr(x, 17),
        [WORDS[4:]],
        np.array([1 << 14, -(1 << 14), 0, 0], np.int32),
    ),
    "sqrshrn16": (
        "sqrshrn",
        lambda x: narrow.sqrshrn16(x, 1),
        [WORDS[2:6]],
        np.array([-(1 << 14), -(1 << 14), 32767, -32768], np.int16),
    ),
    "sqadd32": (
        "sqadd",
        narrow.sqadd32,
        [WORDS[4:], WORDS[:4].copy()],
        np.array([2**31 - 1, -(2**31) + 32768, -32768, -32770], np.int32),
    ),
    "sqadd16": (
        "sqadd",
        narrow.sqadd16,
        [HALVES, HALVES[::-1].copy() * 2],
        np.clip(HALVES.astype(int) + (HALVES[::-1] * 2).astype(int), -32768, 32767).astype(np.int16),
    ),
}


def function(name: str) -> tirx.PrimFunc:
    _, emit, inputs, expected = CASES[name]
    arguments = [(array.shape, str(array.dtype)) for array in (*inputs, expected)]
    with kernel_function("narrow", arguments) as built:
        *sources, output = built.buffers
        values = [load(s, i64(0), a.size) for s, a in zip(sources, inputs, strict=True)]
        store(output, emit(*values), i64(0), expected.size)
    return built.prim_func


def test_values_on_a_board(tmp_path: Path, board: Board):
    calls = [
        (function(name), inputs, expected.shape, str(expected.dtype))
        for name, (_, _, inputs, expected) in CASES.items()
    ]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for (_, _, _, expected), actual in zip(CASES.values(), outputs, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", CASES)
def test_the_instruction_is_emitted(name: str):
    words = assembly(function(name), BASELINE).split()
    assert words.count(CASES[name][0]) == 1


def test_fmulx_is_not_contracted_with_an_addition():
    with kernel_function("sum", [((4,), "float32")] * 4) as built:
        a, b, c = (load(buffer, i64(0), 4) for buffer in built.buffers[:3])
        store(built.buffers[3], narrow.fmulx(a, b) + c, i64(0), 4)
    words = assembly(built.prim_func, BASELINE).split()
    assert {"fmulx", "fadd"} <= set(words)
    assert not {"fmla", "fmadd"} & set(words)
