# SPDX-License-Identifier: Apache-2.0
"""Floats are sorted as integers, NaN above all others."""

import ml_dtypes
import numpy as np
import pytest
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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_nan_is_above_all_numbers_and_equals_keep_their_order(dtype: str, descending: bool):
    net, x = Net(), tensor("x", 2, 9, dtype=dtype)
    op, nan, inf = relax.op, np.nan, np.inf

    def sorts() -> relax.Tuple:
        both = net.emit("both", op.topk(x, 4, largest=descending))
        whole = net.emit("sort", op.sort(x, 1, descending)), net.emit("argsort", op.argsort(x, 1, descending))
        return relax.Tuple([*whole, *(net.emit(f"part{k}", TupleGetItem(both, k)) for k in range(2))])

    rows = [[-0.0, nan, 2, -inf, 0.0, -nan, inf, -3, -0.0], [nan, 1, nan, nan, -1, 1, -2, 5, nan]]
    data = np.array(rows).astype(np.dtype(dtype))
    sign = -1 if descending else 1
    ranks = [[sign * 1e300 if np.isnan(x) else sign * min(x, 1e299) for x in row] for row in rows]
    order = np.argsort(ranks, 1, kind="stable").astype(np.int32)
    whole, places, most, where = run_on_host(net.module([x], sorts), [data])
    sorted_ = np.take_along_axis(data, order, 1)
    for found, wanted in ((whole, sorted_), (places, order), (most, sorted_[:, :4]), (where, order[:, :4])):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype(float), wanted.astype(float))
    numbers = ~np.isnan(whole.astype(float))
    np.testing.assert_array_equal(np.signbit(whole)[numbers], np.signbit(sorted_)[numbers])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "uint32", "uint64"])
def test_numbers_that_the_runtime_does_not_sort_have_their_order(dtype: str):
    net, x = Net(), tensor("x", 2, 5, dtype=dtype)
    mod = net.module([x], lambda: net.emit("sort", relax.op.sort(x, 1, descending=True)))
    least, most = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    data = np.array([[least, most, least, 1, most], [1, least, 0, 0, most // 2 + 1]]).astype(dtype)
    np.testing.assert_array_equal(run_on_host(mod, [data])[0], np.sort(data, 1)[:, ::-1], strict=True)
