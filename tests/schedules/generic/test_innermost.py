# SPDX-License-Identifier: Apache-2.0
"""The order of loops over products of open sizes."""

import numpy as np
import tvm
import tvm_ffi
from tvm import target, te, tirx

from schedules.generic import stored_axis_innermost


def product() -> tirx.PrimFunc:
    n = tirx.Var("n", "int64")
    a, b = te.placeholder((n, 5), name="a"), te.placeholder((5, n), name="b")
    k = te.reduce_axis((0, 5), "k")
    y = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="y")
    return te.create_prim_func([a, b, y])


def test_stored_axis_goes_innermost_and_values_stay():
    func = stored_axis_innermost(product())
    update = func.script().split('T.sblock("y_update")')[0]
    assert update.splitlines()[-2].strip().startswith("for k, j in T.grid")
    built = tvm.tirx.build(tvm.IRModule({"main": func}), target=target.Target("llvm"))
    for size in (1, 7, 31):
        a, b = (
            np.random.default_rng(size).integers(-9, 9, s).astype(np.float32) for s in ((size, 5), (5, size))
        )
        held = [tvm.runtime.tensor(x) for x in (a, b, np.zeros((size, size), np.float32))]
        built["main"](*held)
        assert np.array_equal(held[-1].numpy(), a @ b)


def test_sums_of_one_tensor_stay():
    n = tirx.Var("n", "int64")
    a = te.placeholder((n, 5), name="a")
    k = te.reduce_axis((0, n), "k")
    y = te.compute((5,), lambda j: te.sum(a[k, j], axis=k), name="y")
    func = te.create_prim_func([a, y])
    assert tvm_ffi.structural_equal(stored_axis_innermost(func), func)
