# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.numerics.qdq.matmul import accumulators, matmul_dynamic_routine, matmul_routine
from tests.schedules.numerics.routines import BELOW_POWER, ODD_POWER, UNSIGNED, WIDE, Per, run

SHAPES = [((1, 1), (1, 7)), ((9, 31), (31, 8)), ((2, 3, 7, 8), (3, 8, 9)), ((2, 1, 3, 5), (1, 4, 5, 2))]


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("a", "b"), [(BELOW_POWER, ODD_POWER), (UNSIGNED, UNSIGNED), (ODD_POWER, WIDE)], ids=str
)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_routine_equals_numpy(shapes: tuple[tuple[int, ...], tuple[int, ...]], a: Per, b: Per):
    rng = np.random.default_rng(3)
    x, y = (rng.choice(per.every, shape) for per, shape in zip((a, b), shapes, strict=True))
    expected = accumulators(x, y, a.zero_point, b.zero_point)
    by_hand = np.einsum(
        "...ik,...kj->...ij", x.astype(np.float64) - a.zero_point, y.astype(np.float64) - b.zero_point
    )
    np.testing.assert_array_equal(expected, by_hand)
    for dtype in ("int32", "int64"):
        routine = matmul_routine(shapes, a, b, dtype)
        np.testing.assert_array_equal(run(routine, [x, y], expected.shape, dtype), expected)
    dynamic = matmul_dynamic_routine(shapes, (a.dtype, b.dtype), ((), (1,)))
    zeros = [np.int32(a.zero_point), np.array([b.zero_point], np.int32)]
    np.testing.assert_array_equal(run(dynamic, [x, y, *zeros], expected.shape, "int32"), expected)


def test_zero_points_can_be_read():
    attributes = matmul_routine(((1, 2), (2, 1)), ODD_POWER, UNSIGNED, "int32").func.attrs
    assert (attributes["numerics"], int(attributes["a_zero"]), int(attributes["b_zero"])) == (
        "qdq.matmul",
        7,
        131,
    )
