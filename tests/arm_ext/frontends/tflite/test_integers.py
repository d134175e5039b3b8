# SPDX-License-Identifier: Apache-2.0
"""LiteRT's fixed-point arithmetic: its Relax form against plain Python's integers."""

import numpy as np
from tvm import relax

from arm_ext.frontends.tflite.fixed_point import multiplier_of
from arm_ext.frontends.tflite.integers import scaled
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of, name_bindings

SCALES = [2.0**-9, 0.3, 1.0, 5.7]


def expected(x: int, scale: float) -> int:
    multiplier, shift = multiplier_of(scale)
    high = ((x << max(shift, 0)) * multiplier + 2**30) >> 31
    right = max(-shift, 0)
    size = (abs(high) + (1 << right >> 1)) >> right
    return size if high >= 0 else -size


def test_scale_for_each_channel():
    x = np.arange(-5000, 5000, 7, dtype=np.int32)
    values = np.repeat(x[:, None], len(SCALES), 1)
    builder, param = relax.BlockBuilder(), relax.Var("x", relax.TensorType(values.shape, "int32"))
    with builder.function("main", [param]):
        with builder.dataflow():
            y = builder.emit_output(scaled(param, np.array(SCALES)))
        builder.emit_func_output(y)
    mod = builder.get()
    func = mod["main"]
    mod["main"] = name_bindings(func, dict.fromkeys((b.var for b in bindings_of(func)), "scaled"))
    (found,) = run_on_host(mod, [values])
    np.testing.assert_array_equal(found, [[expected(int(v), s) for s in SCALES] for v in x])
