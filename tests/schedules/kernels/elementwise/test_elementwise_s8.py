# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.elementwise import binary_tile, elementwise_s8
from schedules.kernels.elementwise.binary_forms import Linear, Product, Steps, form_of
from schedules.kernels.elementwise.binary_workload import BINARY, binary_of
from schedules.kernels.elementwise.elementwise_s8 import TABLE, Params
from schedules.numerics import tosa
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.table import look_up
from schedules.numerics.qdq.values import dequantize
from tests.schedules.kernels.elementwise.test_binary_forms import A, B, U, V, Y, per
from tests.schedules.kernels.elementwise.test_binary_workload import of_routine
from tests.schedules.programs import BASELINE, NEON, Array, assembly, loops, model_so

CORE = CORES["neoverse-n2"]
POWER = per(2.0**-4, 3)
SIZES = [(1,), (7,), (8,), (15,), (16,), (17,), (31,), (3, 11), (2, 5, 9, 7), (1, 14, 14, 24)]


def workload(op: str, pers: Sequence, shape: Sequence[int], low: int | None = None) -> Workload:
    a, b, y = pers
    info = np.iinfo(y.dtype)
    attributes = {"low": str(info.min if low is None else low), "high": str(info.max)}
    for name, of in zip("aby", pers, strict=True):
        attributes |= {f"{name}_scale": repr(of.scale), f"{name}_zero_point": str(of.zero_point)}
    operands = tuple(Operand(tuple(shape), of.dtype, "input", i) for i, of in enumerate((a, b)))
    return Workload(f"arm.{op}_s8", operands, tuple(sorted(attributes.items())), (), tuple(shape), y.dtype)


def rescaled(op: str, pers: Sequence, shape: Sequence[int], low: int | None = None) -> Workload:
    """The same of the numerics `tosa`, as its routine says."""
    a, b, y = pers
    least = int(np.iinfo(y.dtype).min) if low is None else low
    return of_routine(op, (tuple(shape), tuple(shape)), (a, b), y, least)


def table(shape: Sequence[int], x: str, y: str) -> Workload:
    operands = (Operand(tuple(shape), x, "input", 0), Operand((256,), y, "constant", 0))
    return Workload(TABLE, operands, (), (), tuple(shape), y)


def drawn(shape: Sequence[int], dtype: str) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(3).integers(info.min, info.max + 1, shape).astype(dtype)


def call(case: Workload, params: Params, inputs: Sequence[Array], constants: Sequence[Array] = ()):
    arguments = [*inputs, *elementwise_s8.pack(case, params, constants)]
    return elementwise_s8.build(case, params), arguments, case.output_shape, case.output_dtype


def check(board: Board, folder: Path, calls: Sequence[tuple], expected: Sequence[Array]) -> None:
    so = model_so(folder / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for index, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
        np.testing.assert_array_equal(actual, wanted, err_msg=f"call {index}")


OPERANDS = [
    ("add", (A, B, Y), None),
    ("add", (U, V, U), None),
    ("add", (POWER, per(2.0**-5, -7), per(2.0**-4, 1)), -5),
    ("subtract", (A, U, Y), -3),
    ("subtract", (POWER, per(2.0**-5, -7), per(2.0**-4, 1)), None),
    ("multiply", (A, B, V), None),
    ("multiply", (U, B, per(0.02, 7)), None),
    ("multiply", (per(1.0, 0), per(3e3, 0), per(1.0, 5)), None),
]


def every_pair(pers: Sequence) -> list[Array]:
    """Two tensors [256, 257] of all pairs of values."""
    a, b, _ = pers
    info = [np.iinfo(of.dtype) for of in (a, b)]
    qa = np.repeat(np.arange(info[0].min, info[0].max + 1), 257).astype(a.dtype).reshape(256, 257)
    qb = np.tile(np.r_[info[1].min : info[1].max + 1, 0], 256).astype(b.dtype).reshape(256, 257)
    return [qa, qb]


# No word has the constants of near ties: short decimals with zero points at the ends.
DECIMALS = (per(0.093, 35, "uint8"), per(0.033, 171, "uint8"), per(0.054, 71, "uint8"))
RESCALED = [
    *OPERANDS,
    ("add", DECIMALS, None),
    ("subtract", DECIMALS, 7),
    ("add", (per(0.044, -128), per(0.044, 127), per(0.07, -7)), None),
    ("multiply", (POWER, POWER, per(2.0**-8, 0)), -5),
]


def test_every_pair_of_rescaled_values_on_a_board(tmp_path: Path, board: Board):
    calls, results = [], []
    for op, pers, low in RESCALED:
        case, inputs = rescaled(op, pers, (256, 257), low), every_pair(pers)
        expected = tosa.binary.binary(op, tuple(inputs), pers[:2], pers[2])
        assert isinstance(elementwise_s8.matches(case, CORE), KernelMatch)
        calls.append(call(case, Params(2), inputs))
        results.append(expected if low is None else np.maximum(expected, low))
    check(board, tmp_path, calls, results)


def test_sums_are_rescaled_in_one_word_where_that_is_exact():
    assert isinstance(form_of(binary_of(rescaled("add", (A, B, Y), (3,)))), Linear)
    # Half up, which the form does: ties are no hindrance.
    assert isinstance(form_of(binary_of(rescaled("add", OPERANDS[2][1], (3,)))), Linear)
    assert isinstance(form_of(binary_of(rescaled("add", DECIMALS, (3,)))), Steps)
    assert form_of(binary_of(rescaled("multiply", (A, B, Y), (3,)))) == Product()


@pytest.mark.parametrize(
    ("op", "pers", "instructions"),
    [("add", (A, B, Y), 24), ("add", DECIMALS, 44), ("multiply", (A, B, Y), 20)],
    ids=str,
)
def test_vector_instructions_of_sixteen_rescaled_outputs(op: str, pers: Sequence, instructions: int):
    case = rescaled(op, pers, (4096,))
    assert binary_tile.INSTRUCTIONS[type(form_of(binary_of(case)))] == instructions / 16
    loop = max(loops(assembly(elementwise_s8.build(case, Params(2)), NEON)), key=len)
    assert not [line for line in loop if "[sp" in line]
    # Beside them LDP of each input, STP, three pointers, the count and the branch.
    assert len(loop) == 2 * instructions + 8


def test_a_rescale_that_overflows_is_refused():
    good = rescaled("add", (A, B, Y), (3,))
    large = dict(good.attributes) | {"y_shift": "20"}
    answer = elementwise_s8.matches(dataclasses.replace(good, attributes=tuple(sorted(large.items()))), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == "a RESCALE of that shift may overflow"


def test_every_pair_of_values_on_a_board(tmp_path: Path, board: Board):
    calls, results = [], []
    for op, pers, low in OPERANDS:
        a, b, y = pers
        qa, qb = every_pair(pers)
        expected = binary(op, dequantize(qa, a), dequantize(qb, b), y)
        calls.append(call(workload(op, pers, (256, 257), low), Params(2), [qa, qb]))
        results.append(expected if low is None else np.maximum(expected, low))
    check(board, tmp_path, calls, results)


def test_sizes_with_tails_on_a_board(tmp_path: Path, board: Board):
    calls, expected = [], []
    for shape, params in zip(SIZES, cycle((Params(1), Params(2), Params(4, parallel=True)))):
        a, b = drawn(shape, A.dtype), drawn(shape, B.dtype)[::-1]
        calls.append(call(workload("add", (A, B, Y), shape), params, [a, b]))
        expected.append(binary("add", dequantize(a, A), dequantize(b, B), Y))
    check(board, tmp_path, calls, expected)


@pytest.mark.each_once
@pytest.mark.parametrize("x", ["int8", "uint8"])
@pytest.mark.parametrize("y", ["int8", "uint8"])
def test_tables_on_a_board(x: str, y: str, tmp_path: Path, board: Board):
    entries = drawn((256,), y)
    every = np.arange(256).astype(np.uint8).view(x)
    tensors = [every, *(drawn(shape, x) for shape in SIZES)]
    params = (Params(4), Params(1), Params(2, parallel=True))
    calls = [
        call(table(q.shape, x, y), params[i % len(params)], [q], [entries]) for i, q in enumerate(tensors)
    ]
    check(board, tmp_path, calls, [look_up(entries, q) for q in tensors])


def test_tasks_of_a_parallel_call_cover_all(tmp_path: Path, board: Board):
    q = drawn((33 * 32 + 5,), "int8")
    entries = drawn((256,), "int8")
    calls = [
        call(table((n,), "int8", "int8"), Params(1, parallel=True), [q[:n]], [entries]) for n in (512, 1061)
    ]
    check(board, tmp_path, calls, [look_up(entries, q[:512]), look_up(entries, q)])


@pytest.mark.parametrize(
    ("op", "pers", "instructions"),
    [("add", (A, B, Y), 24), ("multiply", (A, B, per(0.03, 4)), 24), ("add", OPERANDS[2][1], 48)],
    ids=str,
)
def test_vector_instructions_of_sixteen_outputs(op: str, pers: Sequence, instructions: int):
    case = workload(op, pers, (4096,))
    loop = max(loops(assembly(elementwise_s8.build(case, Params(2)), NEON)), key=len)
    assert not [line for line in loop if "[sp" in line]
    # Beside them LDP of each input, STP, three pointers, the count and the branch.
    assert len(loop) == 2 * instructions + 8


def test_a_look_up_is_seven_vector_instructions():
    case = table((4096,), "int8", "int8")
    loop = max(loops(assembly(elementwise_s8.build(case, Params(2)), NEON)), key=len)
    names = [line.split()[0] for line in loop]
    assert (names.count("tbl"), names.count("tbx")) == (2, 6)
    assert not [line for line in loop if "[sp" in line]
    assert len(loop) == 2 * 7 + 6


def test_only_large_calls_are_parallel():
    assert not elementwise_s8.default(table((1024,), "int8", "int8"), CORE).parallel
    assert elementwise_s8.default(table((1 << 20,), "int8", "int8"), CORE).parallel


def test_matches_says_what_it_saw():
    answer = elementwise_s8.matches(workload("add", (A, B, Y), (2, 9)), CORE)
    assert answer == KernelMatch("add of 18 bytes, form linear")
    assert elementwise_s8.matches(table((3,), "int8", "uint8"), CORE) == KernelMatch(
        "look-up of 3 bytes in a table of 256"
    )


def test_near_misses_name_limit_and_actual():
    good = workload("add", (A, B, Y), (2, 9))
    row = dataclasses.replace(good.operands[1], shape=(9,))
    fixed = dataclasses.replace(good.operands[1], kind="constant", dtype="float32")
    near = {
        (", ".join((*BINARY, TABLE)), "arm.linear"): dataclasses.replace(good, composite="arm.linear"),
        ("int8, uint8", "int16, int8"): dataclasses.replace(good, output_dtype="int16"),
        ("1 or more", "(0, 9)"): dataclasses.replace(good, output_shape=(0, 9)),
        ("one shape", "(2, 9) and (9,)"): dataclasses.replace(good, operands=(good.operands[0], row)),
        ("tensors of run time", "a constant"): dataclasses.replace(good, operands=(good.operands[0], fixed)),
    }
    for (limit, actual), case in near.items():
        answer = elementwise_s8.matches(case, CORE)
        assert isinstance(answer, Diagnostic)
        assert (answer.limit, answer.actual) == (limit, actual)


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="unroll 0 is not positive"):
        Params(0)


def test_a_table_of_a_constant_is_left():
    good = table((2, 9), "int8", "int8")
    fixed = dataclasses.replace(good.operands[0], kind="constant")
    answer = elementwise_s8.matches(dataclasses.replace(good, operands=(fixed, good.operands[1])), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == "an operand is constant"
