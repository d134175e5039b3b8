# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

from schedules.generic import LEGALIZE, schedule
from tests.schedules.generic.operators import run
from tests.schedules.programs import host


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_first_of_a_row_of_infinities_is_its_extremum(name: str):
    x = np.random.default_rng(0).normal(size=(3, 9)).astype(np.float32)
    x[1] = {"max": -np.inf, "min": np.inf}[name]
    builder = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with builder.function("main", [var]):
        builder.emit_func_output(builder.normalize(getattr(op, f"arg{name}")(var, 1, False)))
    with host():
        mod = relax.transform.LegalizeOps(LEGALIZE)(builder.get())
    (func,) = [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]
    (*_, actual), *_ = run([schedule(func, host()).func], [x, np.zeros(3, np.int64)])
    np.testing.assert_array_equal(actual, getattr(np, f"arg{name}")(x, 1))
