# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

from schedules.cores import X86_64
from schedules.generic import LEGALIZE, schedule
from tests.schedules.generic.operators import run
from tests.schedules.programs import host


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_first_of_equals_is_found_between_their_neighbours(name: str, dtype: str):
    inf, sign = np.inf, 1 if name == "max" else -1
    tiny = np.finfo(dtype).smallest_subnormal
    rows = [
        [-inf, -inf, -inf, -inf],
        [-1, inf, 2, inf],
        [-3, -1.5, -1, -1],
        [-tiny, -0.0, 0, -1],
        [-1, 0, -0.0, -tiny],
        [0, tiny, tiny, -inf],
        [-2 * tiny, -tiny, -tiny, -1],
        [1, 1.5, np.nextafter(np.array(1.5, dtype), np.array(0, dtype)), 1.5],
    ]
    x = (sign * np.array(rows)).astype(dtype)
    builder = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with builder.function("main", [var]):
        builder.emit_func_output(builder.normalize(getattr(op, f"arg{name}")(var, 1, False)))
    with host():
        mod = relax.transform.LegalizeOps(LEGALIZE)(builder.get())
    (func,) = [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]
    (*_, actual), *_ = run([schedule(func, X86_64).func], [x, np.zeros(len(rows), np.int64)])
    np.testing.assert_array_equal(actual, getattr(np, f"arg{name}")(x, 1))
