# SPDX-License-Identifier: Apache-2.0
"""Numbers of bfloat16 are sorted as float32."""

import ml_dtypes
import numpy as np
from tvm import relax
from tvm.ir import TupleGetItem

from arm_ext.pipeline.selftest import run_on_host
from tests.relay_passes.graphs import Net, tensor


def test_numbers_have_their_order():
    net, x = Net(), tensor("x", 2, 5, dtype="bfloat16")
    op = relax.op

    def sorts() -> relax.Tuple:
        both = net.emit("both", op.topk(x, 2, largest=False))
        ends = [net.emit(kind, op.topk(x, 2, ret_type=kind)) for kind in ("values", "indices")]
        whole = net.emit("sort", op.sort(x, 1)), net.emit("argsort", op.argsort(x, 1))
        ends += [net.emit(name, getattr(op, name)(x, 1)) for name in ("argmin", "argmax")]
        return relax.Tuple([*whole, *ends, *(net.emit(f"part{k}", TupleGetItem(both, k)) for k in range(2))])

    mod = net.module([x], sorts)
    data = np.array([[3, -1, 2.5, -7, 0.5], [0, 1e-3, -1e9, 1e9, -2]]).astype(ml_dtypes.bfloat16)
    order = np.argsort(data.astype(np.float32), 1)
    wanted = [order, order[:, :-3:-1], order[:, :2]]
    found = list(run_on_host(mod, [data]))
    np.testing.assert_array_equal(found.pop(4), order[:, 0])
    np.testing.assert_array_equal(found.pop(4), order[:, -1])
    for k, places in enumerate(wanted):
        np.testing.assert_array_equal(found[2 * k], np.take_along_axis(data, places, 1))
        np.testing.assert_array_equal(found[2 * k + 1], places)


def test_booleans_have_an_order():
    net, x = Net(), tensor("x", 2, 5, dtype="bool")
    mod = net.module([x], lambda: net.emit("sort", relax.op.sort(x, 1, descending=True)))
    data = np.array([[0, 1, 0, 1, 1], [1, 0, 0, 0, 0]], bool)
    np.testing.assert_array_equal(run_on_host(mod, [data])[0], np.sort(data, 1)[:, ::-1], strict=True)
