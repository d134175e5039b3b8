# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import sym, tirx
from tvm.relax import op

from schedules import generic
from schedules.cores import X86_64
from schedules.generic.nest import _truncated
from schedules.generic.stages import Axis
from tests.schedules.generic.operators import lowered, run


@pytest.mark.parametrize("first", [6, 7, 8, 11])
@pytest.mark.parametrize(("shape", "copies"), [((9, 4, 1), (1, 3, 3)), ((2, 3, 5), (1, 4, 1))])
def test_tiles_backwards(shape, copies, first):
    def reverse(x):
        return op.strided_slice(op.tile(x, copies), [1], [first], [0], [-1])

    x = np.random.default_rng(first).integers(-128, 128, shape, np.int8)
    _holds(reverse, x, np.tile(x, copies)[:, first:0:-1])


@pytest.mark.parametrize("first", [4, 5, 7, 8])
def test_a_reshape_backwards(first):
    def reverse(x):
        return op.strided_slice(op.reshape(op.permute_dims(x, [1, 0]), (9, 4)), [0], [first], [0], [-1])

    x = np.random.default_rng(first).integers(-128, 128, (3, 12), np.int8)
    _holds(reverse, x, x.T.reshape(9, 4)[first:0:-1])


def test_a_choice_keeps_its_quotients():
    """Of a mirrored border; it has no bounds that tell how many divisors make it positive."""
    i = tirx.Var("i", "int64")
    mirrored = tirx.if_then_else(i < 4, i, 7 - i) % 3
    assert _truncated(mirrored, [Axis(i, 8)], sym.Analyzer()).same_as(mirrored)


def _holds(function, x, expected):
    scheduled = generic.schedule(lowered(function, (x.shape, "int8")), X86_64)
    assert "unscheduled" not in scheduled.done
    ((_, actual),) = run([scheduled.func], [x, np.full_like(expected, 99)])
    np.testing.assert_array_equal(actual, expected)
