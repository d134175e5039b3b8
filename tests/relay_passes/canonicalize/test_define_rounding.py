# SPDX-License-Identifier: Apache-2.0
"""Casts of float32 to bfloat16 and back round half to even."""

import ml_dtypes
import numpy as np
from tvm import relax

from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize.define_rounding import define_rounding
from tests.relay_passes.graphs import Net, tensor


def test_casts_there_and_back_round():
    largest = np.finfo(np.float32).max
    ends = np.array([0, -0.0, np.nan, np.inf, -np.inf, largest, -largest, 1e-45], np.float32)
    ties = (np.arange(31, dtype=np.uint32) << 15 | 0x3F800000).view(np.float32)
    x = np.concatenate([ends, ties, np.random.default_rng(0).normal(size=31).astype(np.float32)])
    net, data = Net(), tensor("x", x.size)

    def body() -> relax.Expr:
        narrow = net.emit("narrow", relax.op.astype(data, "bfloat16"))
        wide = net.emit("wide", relax.op.astype(narrow, "float32"))
        return net.emit("error", relax.op.subtract(data, wide))

    with np.errstate(invalid="ignore", over="ignore"):
        wanted = x - x.astype(ml_dtypes.bfloat16).astype(np.float32)
    (found,) = run_on_host(net.module([data], body), [x])
    np.testing.assert_array_equal(found, wanted)


def test_what_is_narrow_from_the_start_stays_a_cast():
    net, data = Net(), tensor("x", 9, dtype="bfloat16")
    mod = net.module([data], lambda: net.emit("wide", relax.op.astype(data, "float32")))
    assert define_rounding(mod).same_as(mod)
