# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.pipeline import codegen
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import resolve
from schedules.kernels.depthwise import depthwise_f32
from schedules.lowering.lower import in_root_block
from schedules.tir.emit import EXACT
from tests.schedules.kernels.depthwise.test_depthwise_f32 import CASES, CORE


@T.prim_func(s_tir=True)
def _halved(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):  # type: ignore[no-untyped-def]
    """Takes twice the buffer that it needs."""
    T.func_attr({"global_symbol": "halved", "tirx.noalias": True})
    with T.sblock("root"):
        between = T.sblock_alloc_buffer((16,))
        for i in range(8):
            between[i] = x[i] * T.float32(0.5)
        for i in range(8):
            y[i] = between[i]


def _allocated(func: tirx.PrimFunc) -> int:
    sizes = tvm.s_tir.analysis.calculate_allocated_bytes(codegen.allocations(tvm.IRModule({"main": func})))
    return sum(int(size) for by_scope in sizes.values() for size in by_scope.values())


def test_buffers_shrink_to_what_is_used_but_those_of_kernels_of_ours():
    func = _halved.with_attr("global_symbol", "main")
    assert _allocated(func) == 32
    assert _allocated(func.with_attr(EXACT, True)) == 64


def test_code_is_that_of_the_whole_list_of_passes():
    workload = CASES["images"]
    func = in_root_block(depthwise_f32.build(workload, depthwise_f32.default(workload, CORE)))
    target = resolve("neoverse-n2").tvm_target()
    for each in (func, _halved):
        ours, whole = (
            tvm.tirx.build(each, target, pipeline=name).inspect_source("asm")
            for name in (codegen.registered(), "default")
        )
        assert ours == whole


@pytest.mark.parametrize("op", [np.equal, np.not_equal])
def test_vectors_of_bools_are_compared(op: np.ufunc):
    """Which TVM does by an instruction for floats, that LLVM refuses."""
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 2, (4, 16)).astype(bool) for _ in range(2)]
    params = [relax.Var(name, relax.TensorType((4, 16), "bool")) for name in "ab"]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(builder.emit(getattr(relax.op, op.__name__)(*params)))
        builder.emit_func_output(output)
    (found,) = run_on_host(builder.get(), given)
    np.testing.assert_array_equal(found, op(*given))
