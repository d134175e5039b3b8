# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

from arm_ext.board import Board
from schedules.intrinsics import mmla
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.products import I8MM
from tests.schedules.programs import assembly, model_so

FORMS = {"smmla": ("int8", "int8"), "ummla": ("uint8", "uint8"), "usmmla": ("uint8", "int8")}


def block(name: str) -> tirx.PrimFunc:
    """A 2 x 2 block of accumulators plus two rows of A by two columns of B."""
    a, b = FORMS[name]
    arguments = [((4,), "int32"), ((16,), a), ((16,), b), ((4,), "int32")]
    with kernel_function(name, arguments) as function:
        acc, left, right, output = function.buffers
        operands = (load(acc, i64(0), 4), load(left, i64(0), 16), load(right, i64(0), 16))
        store(output, getattr(mmla, name)(*operands), i64(0), 4)
    return function.prim_func


def operands(name: str) -> list[np.ndarray]:
    rng, (a, b) = np.random.default_rng(1), FORMS[name]
    left, right = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, (2, 8)).astype(t) for t in (a, b))
    left[0], right[0] = np.iinfo(a).max, np.iinfo(b).min
    return [rng.integers(-(2**30), 2**30, 4).astype(np.int32), left.ravel(), right.ravel()]


@pytest.mark.isa("i8mm")
def test_values_on_a_board(tmp_path: Path, board: Board):
    inputs = {name: operands(name) for name in FORMS}
    calls = [(block(name), inputs[name], (4,), "int32") for name in FORMS]
    so = model_so(tmp_path / "model.so", calls, I8MM)
    outputs = board.load(so).run([array for arrays in inputs.values() for array in arrays])
    for (acc, left, right), actual in zip(inputs.values(), outputs, strict=True):
        sums = left.reshape(2, 8).astype(np.int64) @ right.reshape(2, 8).astype(np.int64).T
        np.testing.assert_array_equal(actual, (acc + sums.ravel()).astype(np.int32))


@pytest.mark.parametrize("name", FORMS)
def test_the_instruction_is_emitted(name: str):
    body = assembly(block(name), I8MM).splitlines()
    assert [line.split()[0] for line in body if "mmla" in line and "v" in line.split()[-1]].count(name) == 1


def test_wrong_dtypes_are_refused():
    acc, signed = tirx.Var("acc", "int32x4"), tirx.Var("s", "int8x16")
    with pytest.raises(ValueError, match="usmmla: an operand is int8x16, expected uint8x16"):
        mmla.usmmla(acc, signed, signed)
    with pytest.raises(ValueError, match="smmla: an operand is int8x16, expected int32x4"):
        mmla.smmla(signed, signed, signed)
