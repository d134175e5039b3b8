# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.elementwise import broadcast_s8
from schedules.kernels.elementwise.binary_forms import Per
from schedules.kernels.elementwise.broadcast_plan import affine_form
from schedules.kernels.elementwise.broadcast_s8 import Params
from schedules.numerics import tosa
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.values import dequantize
from tests.schedules.kernels.elementwise.test_binary_forms import A, B, U, Y, per
from tests.schedules.kernels.elementwise.test_binary_workload import of_routine
from tests.schedules.programs import BASELINE, NEON, Array, assembly, loops, model_so

CORE = CORES["neoverse-n2"]
# Near to 1 for each other, so that 16 bits are too few for the multipliers of some values.
WIDE = per(0.0523, -110), per(0.00391, -128), per(0.0371, -115)
TIES = per(2.0**-4, 3), per(2.0**-5, -7), per(2.0**-4, 1)
SERIAL = Params()
Pers = tuple[Per | None, Per | None, Per]


def workload(
    op: str, shapes: Sequence[tuple[int, ...]], pers: Pers, constant: Array | None = None, low: int = -128
):
    """As it is parsed: a constant comes after the tensor."""
    out = np.broadcast_shapes(*shapes)
    attributes = {"low": str(low), "high": str(np.iinfo(pers[2].dtype).max)}
    inputs, constants = [], []
    for shape, of in zip(shapes, pers, strict=False):
        if of is None:
            constants.append(Operand(shape, "float32", "constant", 0))
        else:
            inputs.append(Operand(shape, of.dtype, "input", len(inputs)))
    for name, of in zip("aby", pers, strict=True):
        if of is not None:
            attributes |= {f"{name}_scale": repr(of.scale), f"{name}_zero_point": str(of.zero_point)}
    found = Workload(
        f"arm.{op}_s8", (*inputs, *constants), tuple(sorted(attributes.items())), (), out, pers[2].dtype
    )
    return found if constant is None else replace(found, affine=affine_form(found, [constant]))


class Case:
    """A call and what it computes by definition."""

    def __init__(
        self,
        op: str,
        shapes,
        pers: Pers,
        params: Params = SERIAL,
        low: int = -128,
        steps: float = 0.0,
        numerics: str = "qdq",
    ) -> None:
        rng = np.random.default_rng(5)
        values = [
            rng.normal(size=shape).astype(np.float32) * 2
            if of is None
            else rng.integers(np.iinfo(of.dtype).min, np.iinfo(of.dtype).max + 1, shape).astype(of.dtype)
            for shape, of in zip(shapes, pers, strict=False)
        ]
        if steps:
            values = [
                np.rint(v / steps).astype(v.dtype) * v.dtype.type(steps) if v.dtype == np.float32 else v
                for v in values
            ]
        constant = next((v for v, of in zip(values, pers, strict=False) if of is None), None)
        if numerics == "qdq":
            self.workload = workload(op, shapes, pers, constant, low)
            real = [v if of is None else dequantize(v, of) for v, of in zip(values, pers, strict=False)]
            expected = binary(op, *real, pers[2])
        else:
            operands = [v if of is None else of for v, of in zip(values, pers, strict=False)]
            self.workload = of_routine(op, shapes, operands, pers[2], low)
            found = tosa.binary.terms(op, tuple(operands), pers[2])
            expected = tosa.binary.binary(op, tuple(values), tuple(operands), pers[2])
            if constant is not None:
                constant = found.b.constant if found.a.constant is None else found.a.constant
                self.workload = replace(self.workload, affine=affine_form(self.workload, [constant]))
        self.expected = np.maximum(expected, np.array(low, pers[2].dtype))
        self.inputs = [v for v, of in zip(values, pers, strict=False) if of is not None]
        self.constants = [] if constant is None else [constant]
        self.func = broadcast_s8.build(self.workload, params)
        self.arguments = [*self.inputs, *broadcast_s8.pack(self.workload, params, self.constants)]

    @property
    def call(self):
        return self.func, self.arguments, self.workload.output_shape, self.workload.output_dtype


def check(board: Board, folder: Path, cases: Sequence[Case]) -> None:
    so = model_so(folder / "model.so", [case.call for case in cases], BASELINE)
    outputs = board.load(so).run([array for case in cases for array in case.arguments])
    for actual, case in zip(outputs, cases, strict=True):
        np.testing.assert_array_equal(actual, case.expected, str(case.workload))


SHAPES = [
    ((1, 7, 7, 24), (1, 1, 1, 24)),
    ((1, 1, 1, 17), (1, 9, 8, 17)),
    ((2, 9, 11, 5), (2, 1, 1, 5)),
    ((2, 1, 3, 31), (2, 7, 3, 31)),
    ((3, 33, 40), (33, 40)),
    ((5, 17), (1,)),
    ((3,), (1,)),
    ((3, 97, 1), (3, 97, 65)),
]


# With `-m long` subtract, too, which the tests of elementwise_s8 and of the definitions have in any case.
OPS = pytest.mark.parametrize("op", ["add", pytest.param("subtract", marks=pytest.mark.long), "multiply"])


@OPS
def test_broadcast_operands_on_a_board(op: str, tmp_path: Path, board: Board):
    # The operators differ in a vector's arithmetic, not in the walk over a shape: each has a half of the shapes.
    some, others = (SHAPES[::2], SHAPES[1::2]) if op == "add" else (SHAPES[1::2], SHAPES[::2])
    cases = [Case(op, shapes, WIDE, Params(parallel=i % 2 == 0)) for i, shapes in enumerate(some)]
    cases += [Case(op, shapes, (U, B, Y), low=-20) for shapes in others[::2]]
    cases += [Case(op, shapes, TIES) for shapes in others[1::2]]
    check(board, tmp_path, cases)


@OPS
def test_constants_on_a_board(op: str, tmp_path: Path, board: Board):
    cases = [Case(op, shapes, (None, B, Y)) for shapes in SHAPES if shapes[1] == np.broadcast_shapes(*shapes)]
    cases += [
        Case(op, shapes, (A, None, Y)) for shapes in SHAPES if shapes[0] == np.broadcast_shapes(*shapes)
    ]
    cases += [Case(op, (shape, shape), (U, None, A), Params(parallel=True)) for shape in ((5, 9), (65, 33))]
    cases.append(Case(op, ((300,), ()), (A, None, Y)))
    # Ties: half a step more than sixteenths.
    cases += [
        Case(op, shapes, (TIES[0], None, TIES[2]), steps=2.0**-5)
        for shapes in (((7, 33), (33,)), ((9,), (9,)))
    ]
    check(board, tmp_path, cases)


@OPS
def test_rescaled_operands_on_a_board(op: str, tmp_path: Path, board: Board):
    last, both = SHAPES[0], ((65, 33), (65, 33))
    cases = [Case(op, shapes, WIDE, numerics="tosa") for shapes in SHAPES[:5]]
    cases += [Case(op, SHAPES[6], (U, B, Y), low=-20, numerics="tosa"), Case(op, last, TIES, numerics="tosa")]
    cases += [
        Case(op, last, (A, None, Y), numerics="tosa"),
        Case(op, last[::-1], (None, U, Y), numerics="tosa"),
        Case(op, both, (TIES[0], None, TIES[2]), Params(parallel=True), steps=2.0**-5, numerics="tosa"),
    ]
    assert all(isinstance(broadcast_s8.matches(case.workload, CORE), KernelMatch) for case in cases)
    check(board, tmp_path, cases)


@pytest.mark.parametrize("op", ["add", "multiply"])
@pytest.mark.parametrize("pers", [TIES, (A, B, Y), (A, None, Y)], ids=str)
def test_rescaled_operands_have_an_affine_form_even_with_ties(op: str, pers: Pers):
    taken = Case(op, ((5, 9), (9,)), pers, numerics="tosa").workload
    assert broadcast_s8.matches(taken, CORE) == KernelMatch(f"{op}, 5 times a run of 9, form affine")


@pytest.mark.parametrize("pers", [(A, B, Y), WIDE, TIES], ids=str)
def test_every_pair_of_values_on_a_board(pers: Pers, tmp_path: Path, board: Board):
    """Every value of what stays, for a row of every value of the other."""
    every = np.arange(-128, 128).astype(np.int8)
    case = Case("multiply", ((256, 256), (256,)), pers)
    rows = np.repeat(every[:, None], 256, 1)
    case.arguments[:2] = rows, every
    case.expected = binary("multiply", dequantize(rows, pers[0]), dequantize(every, pers[1]), pers[2])
    check(board, tmp_path, [case])


@pytest.mark.parametrize(
    ("pers", "instructions"),
    # 10 or 14 vector instructions a vector; LDP of a, m and k of two vectors, STP; three or four pointers, the branch.
    [((A, None, per(0.0871, 3)), 2 * 10 + 8 + 6), ((A, None, Y), 2 * 10 + 8 + 6)],
    ids=str,
)
def test_instructions_of_a_constant_row(pers: Pers, instructions: int):
    case = Case("add", ((64, 320), (320,)), pers)
    loop = max(loops(assembly(case.func, NEON)), key=len)
    assert not [line for line in loop if "[sp" in line]
    assert len(loop) <= instructions


def test_instructions_of_a_broadcast_product():
    for shape in ((1, 28, 28, 96), (1, 28, 28, 480)):
        case = Case("multiply", (shape, (1, 1, 1, shape[-1])), WIDE)
        loop = max(loops(assembly(case.func, NEON)), key=len)
        assert not [line for line in loop if "[sp" in line]
        # Multipliers of 32 bits: 14 vector instructions a vector, LDP of a, m and k, STP, four pointers, the branch.
        assert len(loop) <= 2 * 14 + 10 + 7


def test_matches_says_what_it_saw():
    taken = workload("multiply", ((1, 7, 7, 24), (1, 1, 1, 24)), WIDE)
    assert broadcast_s8.matches(taken, CORE) == KernelMatch("multiply, 49 times a run of 24, form affine")
    assert broadcast_s8.matches(workload("add", ((5, 9), (9,)), TIES), CORE) == KernelMatch(
        "add, 5 times a run of 9, form exact"
    )


@pytest.mark.parametrize(
    ("shapes", "pers", "reason"),
    [
        (((5, 9), (5, 9)), WIDE, "no operand broadcasts"),
        (((5, 1), (1, 9)), WIDE, "both operands broadcast"),
        (((5, 7, 3), (5, 7, 1)), WIDE, "the unchanged operand is read for too few elements"),
        (((0, 9), (9,)), WIDE, "a dimension is 0"),
        (((5, 9), (5, 1)), WIDE, "the unchanged operand is read for too few elements"),
    ],
    ids=str,
)
def test_near_misses(shapes, pers: Pers, reason: str):
    answer = broadcast_s8.matches(workload("add", shapes, pers), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == reason


def test_only_large_calls_are_parallel():
    assert not broadcast_s8.default(workload("add", ((5, 9), (9,)), WIDE), CORE).parallel
    assert broadcast_s8.default(workload("add", ((4096, 96), (96,)), WIDE), CORE).parallel
