# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board, open_board
from schedules.cores import CORES
from schedules.intrinsics import exp_f32, sve
from schedules.intrinsics.vector_f32 import Vector
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import NEON_CORE, SVE_PROFILE, Array, assembly, model_so

COUNT = 1024
RNG = np.random.default_rng(3)
# Of each: what to emit for four elements from an offset, inputs, the result, and its instruction.
Emit = Callable[[list[tirx.Buffer], ir.Expr], ir.Expr]
TABLE = RNG.integers(-(2**31), 2**31, 256).astype(np.int32)
FLOATS = [RNG.normal(size=COUNT).astype(np.float32) for _ in range(3)]
CASES: dict[str, tuple[Emit, list[Array], Array, str]] = {
    "fexpa": (
        lambda buffers, at: sve.fexpa(load(buffers[0], at, 4)),
        [(64 + 15 * np.arange(COUNT)).astype(np.int32)],
        np.zeros(0),
        "fexpa z",
    ),
    "fma": (
        lambda buffers, at: sve.fma(*(load(buffer, at, 4) for buffer in buffers[:3])),
        FLOATS,
        # Products of 24 bits are exact in binary64, and sums that are rounded twice are not among these.
        (FLOATS[0].astype(np.float64) * FLOATS[1] + FLOATS[2]).astype(np.float32),
        "fma",
    ),
    "int8": (
        lambda buffers, at: sve.widened(buffers[0], at),
        [np.arange(COUNT).astype(np.uint8).view(np.int8)],
        np.arange(COUNT).astype(np.uint8).view(np.int8).astype(np.int32),
        "ld1sb",
    ),
    "uint8": (
        lambda buffers, at: sve.widened(buffers[0], at),
        [np.arange(COUNT).astype(np.uint8)],
        np.arange(COUNT).astype(np.uint8).astype(np.int32),
        "ld1b",
    ),
    "gathered": (
        lambda buffers, at: sve.gathered(buffers[1], load(buffers[0], at, 4)),
        [RNG.permutation(COUNT).astype(np.int32) % 256, TABLE],
        np.zeros(0, np.int32),
        "ld1w",
    ),
}


def program(emit: Emit, inputs: list[Array], dtype: str) -> tirx.PrimFunc:
    arguments = [(x.shape, str(x.dtype)) for x in inputs]
    with (
        kernel_function("program", [*arguments, ((COUNT,), dtype)]) as function,
        sve.functions(),
        T.serial(i64(0), i64(COUNT // 4)) as index,
    ):
        store(function.buffers[-1], emit(function.buffers, index * 4), index * 4, 4)
    assert function.prim_func is not None
    return function.prim_func


def expected(name: str) -> Array:
    _, inputs, result, _ = CASES[name]
    if name == "fexpa":
        exponents, fractions = np.divmod(inputs[0], 64)
        return np.exp2(exponents - 127 + fractions / 64).astype(np.float32)
    return TABLE[inputs[0]] if name == "gathered" else result


def check(name: str, board: Board, folder: Path) -> None:
    emit, inputs, _, _ = CASES[name]
    wanted = expected(name)
    func = program(emit, inputs, str(wanted.dtype))
    so = model_so(
        folder / "model.so", [(func, inputs, (COUNT,), str(wanted.dtype))], SVE_PROFILE.tvm_target()
    )
    np.testing.assert_array_equal(board.load(so).run(inputs)[0], wanted)


@pytest.mark.parametrize("name", CASES)
def test_values_and_instruction(name: str, tmp_path: Path, sve_board: Board):
    check(name, sve_board, tmp_path)
    emit, inputs, _, instruction = CASES[name]
    asm = assembly(program(emit, inputs, str(expected(name).dtype)), SVE_PROFILE.tvm_target())
    assert instruction in asm.replace("\t", " ").replace("fmad", "fma").replace("fmla", "fma")


def partial_stores() -> tirx.PrimFunc:
    """Row i of 16 bytes has the first i of those of the input's, and zeros, which were there before."""
    with (
        kernel_function("program", [((COUNT,), "uint8"), ((16, 16), "uint8")]) as function,
        sve.functions(),
    ):
        data, output = function.buffers
        for row in range(16):
            store(output, tirx.Broadcast(tirx.IntImm("uint8", 0), 16), i64(16 * row), 16)
            if row:
                sve.store_first(output, load(data, i64(16 * row), 16), i64(16 * row), row)
    assert function.prim_func is not None
    return function.prim_func


def check_partial_stores(board: Board, folder: Path) -> None:
    data = np.arange(1, COUNT + 1).astype(np.uint8)
    so = model_so(
        folder / "part.so", [(partial_stores(), [data], (16, 16), "uint8")], SVE_PROFILE.tvm_target()
    )
    wanted = np.tril(data[:256].reshape(16, 16), -1)
    np.testing.assert_array_equal(board.load(so).run([data])[0], wanted)


def test_partial_stores(tmp_path: Path, sve_board: Board):
    check_partial_stores(sve_board, tmp_path)
    assert "st1b" in assembly(partial_stores(), SVE_PROFILE.tvm_target())


@pytest.mark.parametrize("length", ["sve256=on,sve512=off", "sve512=on"])
def test_longer_vectors_give_the_same(length: str, tmp_path: Path):
    with open_board(f"virtual:max,sme=off,{length}") as board:
        for name in CASES:
            check(name, board, tmp_path)
        check_partial_stores(board, tmp_path)


def test_powers_are_within_their_bound(tmp_path: Path, sve_board: Board):
    y = np.linspace(-126, 127, COUNT).astype(np.float32)
    y[:6] = -np.inf, -127.0, -200, np.nan, 0, -126
    x = np.resize([y / exp_f32.LOG2_E, y], (2, COUNT)).astype(np.float32)
    for base_e, exponents in ((True, x[0]), (False, x[1])):
        func = program(
            lambda buffers, at, base_e=base_e: exp_f32.power(  # type: ignore[misc] # bound at once
                Vector(4, sve=True), load(buffers[0], at, 4), base_e=base_e
            ),
            [exponents],
            "float32",
        )
        so = model_so(
            tmp_path / "model.so", [(func, [exponents], (COUNT,), "float32")], SVE_PROFILE.tvm_target()
        )
        (actual,) = sve_board.load(so).run([exponents])
        wide = exponents.astype(np.float64)
        exact = np.exp(wide) if base_e else np.exp2(wide)
        assert actual[:3].tolist() == [0, 0, 0]
        assert np.isnan(actual[3])
        normal = exact > 2.0**-126
        assert np.abs(actual[normal] / exact[normal] - 1).max() <= exp_f32.ERROR


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match="fexpa: an operand is float32x4, expected int32x4"):
        sve.fexpa(tirx.Var("x", "float32x4"))
    with pytest.raises(ValueError, match="fma: an operand is float32x8, expected float32x4"):
        sve.fma(*[tirx.Var("x", "float32x8")] * 3)
    words = tirx.decl_buffer((8,), "int16")
    with pytest.raises(ValueError, match="widened: the buffer is int16"):
        sve.widened(words, i64(0))
    with pytest.raises(ValueError, match="gathered: the buffer is int16"):
        sve.gathered(words, tirx.Var("x", "int32x4"))
    with pytest.raises(ValueError, match="store_first: the buffer is int16"):
        sve.store_first(words, tirx.Var("x", "int16x16"), i64(0), 3)


def test_only_cores_with_sve_of_128_bits_take_them():
    assert sve.pays(SVE_PROFILE.core)
    assert not sve.pays(NEON_CORE)
    assert not sve.pays(CORES["neoverse-v1"])
    assert not sve.pays(dataclasses.replace(SVE_PROFILE.core, vector_bits=256))
