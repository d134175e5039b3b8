# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N805, N812 - TVMScript: functions of a module are no methods, I and R are its names
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_passes.ir.main_signature import fed, returning
from relay_passes.ir.sources import bindings_of


@I.ir_module
class Quantised:
    @R.function
    def main(x: R.Tensor((2,), "int8")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            a = R.dequantize(x, R.const(0.5), R.const(0, "int8"))
            b = R.add(a, R.const(np.array([1, 2], np.float32)))
            q = R.quantize(b, R.const(0.5), R.const(0, "int8"), out_dtype="int8")
            c = R.dequantize(q, R.const(0.5), R.const(0, "int8"))
            d = R.multiply(c, R.const(np.array([2, 2], np.float32)))
            R.output(d)
        return d


def named(*names: str) -> list[relax.Var]:
    found = {str(binding.var.name): binding.var for binding in bindings_of(Quantised["main"])}
    return [found[name] for name in names]


def run(mod: tvm.IRModule, *inputs: Sequence[float]) -> list[list[float]]:
    params = mod["main"].params
    values = [np.array(value, str(p.ty.dtype)) for value, p in zip(inputs, params, strict=True)]
    lowered = relax.transform.LegalizeOps()(mod)
    vm = relax.VirtualMachine(relax.build(lowered, "llvm"), tvm.cpu())
    return [each.numpy().tolist() for each in vm["main"](*map(tvm.runtime.tensor, values))]


def test_main_returns_what_is_asked_for():
    assert run(returning(Quantised, named("q", "d")), [2, 4]) == [[4, 8], [4.0, 8.0]]


def test_readers_read_what_is_given_instead():
    mod = fed(Quantised, named("q", "d"), dequantized=False)
    assert run(mod, [2, 4], [10, 20], [0, 0]) == [[4, 8], [10.0, 20.0]]


def test_floats_stand_for_what_is_dequantised():
    mod = fed(Quantised, named("q", "d"), dequantized=True)
    # Of x, then of q and d: neither the input nor the integers given are read.
    given = [[2, 4], [10, 20], [0, 0], [0.75, 1.25], [3.25, 4.5], [0, 0]]
    assert run(mod, *given) == [[4, 6], [6.5, 9.0]]
