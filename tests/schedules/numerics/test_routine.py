# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import te

from schedules.numerics.routine import broadcast, routine
from tests.schedules.numerics.routines import run


@pytest.mark.parametrize("shape", [(7, 1), (1, 9), (9,), (1,), ()], ids=str)
def test_broadcast_is_numpys(shape: tuple[int, ...]):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    tensor = te.placeholder(shape, "int32", "x")
    out = te.compute((3, 7, 9), lambda *i: broadcast(tensor, (3, 7, 9), i), "y")
    expected = np.broadcast_to(x, (3, 7, 9))
    np.testing.assert_array_equal(run(routine("copy", [tensor, out], []), [x], (3, 7, 9), "int32"), expected)


def test_routine_says_what_it_computes_and_leaves_its_symbol_to_the_module():
    x = te.placeholder((3,), "int8", "x")
    made = routine("copy", [x, te.compute((3,), lambda i: x(i), "y")], [], zero_point=7)
    assert dict(made.func.attrs)["numerics"] == "copy"
    assert dict(made.func.attrs)["zero_point"] == 7
    assert "global_symbol" not in made.func.attrs
    # As Relax has it: FuseTIR compares shapes with their dtypes.
    assert "x: T.Buffer((T.int64(3),)" in made.func.script()
