# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from arm_ext.ethosu.ops.integer_arithmetic import KINDS, Range, is_defined, range_of, result

INT32 = (-(1 << 31), (1 << 31) - 1)
INT8, INT16 = (-128, 127), (-32768, 32767)


def test_what_an_operand_can_be():
    narrow, wide = (relax.Var("x", relax.TensorType((3, 4), dtype)) for dtype in ("int8", "int32"))
    cast = relax.BlockBuilder().normalize(op.astype(narrow, "int32"))
    assert range_of(wide, None) == INT32
    assert range_of(wide, cast) == INT8
    assert range_of(relax.const(np.array([3, -9, 4], "int32")), None) == (-9, 4)
    assert range_of(relax.Var("m", relax.TensorType((3,), "bool")), None) == (0, 1)


@pytest.mark.parametrize(
    ("kind", "operands", "found"),
    [
        ("integer_add", (INT8, (1000, 1000)), (872, 1127)),
        ("integer_subtract", (INT8, INT8), (-255, 255)),
        ("integer_multiply", (INT8, INT8), (-16256, 16384)),
        ("negative", (INT8,), (-127, 128)),
    ],
)
def test_what_an_operator_can_give(kind: str, operands: tuple[Range, ...], found: Range):
    assert result(kind, operands) == found


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("integer_add", (INT32, (0, 0)), (INT32, (0, 1))),
        ("integer_subtract", (INT16, INT16), (INT32, (1, 1))),
        ("integer_multiply", (INT16, INT16), (INT32, (2, 2))),
        ("abs", ((-(1 << 31) + 1, 0),), (INT32,)),
        ("negative", ((-(1 << 31) + 1, 0),), (INT32,)),
        ("left_shift", (INT32, (0, 31)), (INT32, (0, 32))),
        ("right_shift", (INT32, (0, 31)), (INT32, (-1, 31))),
        ("divide", (INT32, (1, 9)), (INT32, (0, 9))),
        ("divide", (INT16, (-1, -1)), (INT32, (-1, -1))),
    ],
)
def test_what_tosa_leaves_open_does_not_fit(kind: str, inside: tuple[Range, ...], outside: tuple[Range, ...]):
    assert is_defined(kind, inside)
    assert not is_defined(kind, outside)


def test_every_kind_is_computed():
    operands = (INT8, (1, 3))
    assert all(is_defined(kind, operands) for kind in KINDS)
