# SPDX-License-Identifier: Apache-2.0
import numpy as np
import tvm
from tvm import relax
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.hoist_workspaces import STACK_BYTES, hoist_workspaces
from relay_passes.memory.plan_arena import plan_arena
from relay_passes.memory.storage_offsets import accept_offsets
from tests.relay_passes.memory.test_plan_arena import run

SIZE = STACK_BYTES // 4 + 1
SMALL = 8


@T.prim_func(s_tir=True, private=True)
def through_copies(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
    whole = T.alloc_buffer((SIZE,))
    small = T.alloc_buffer((SMALL,))
    for i in range(SIZE):
        whole[i] = x[i] + T.float32(1.0)
    with T.attr(0, "pragma_of_some_kind", 1):
        for i in range(SIZE):
            again = T.alloc_buffer((SIZE,))
            again[i] = whole[i] * T.float32(2.0)
            small[i % SMALL] = again[i]
            y[i] = small[i % SMALL]
    for i in T.parallel(SIZE):
        own = T.alloc_buffer((SIZE,))
        own[i] = y[i]
        y[i] = own[i]


def two_calls() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((SIZE,), "float32"))
    kernel = builder.add_func(through_copies, "kernel")
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for _ in range(2):
                y = builder.emit(relax.call_tir(kernel, (y,), out_ty=relax.TensorType((SIZE,), "float32")))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    passes = [relax.transform.ToNonDataflow(), relax.transform.RemovePurityChecking()]
    return tvm.transform.Sequential([*passes, relax.transform.CallTIRRewrite()])(builder.finalize())


def planned(mod: tvm.IRModule) -> tvm.IRModule:
    with tvm.target.Target("llvm"):
        return accept_offsets(plan_arena(relax.transform.StaticPlanBlockMemory()(mod)))


def calls(mod: tvm.IRModule, name: str) -> list[relax.Call]:
    values = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    return [v for v in values if name in (getattr(v.op, "name", ""), getattr(v.op, "name_hint", ""))]


def test_what_a_whole_call_holds_is_lent_and_nothing_else():
    lent = hoist_workspaces(two_calls())
    # x, y, `whole` and `again`; `small` is for the stack, and `own` each thread's.
    assert [[int(dim) for dim in p.ty.shape] for p in lent["kernel"].params] == [[SIZE]] * 4
    assert [len(call.args) for call in calls(lent, "kernel")] == [4, 4]
    assert lent["kernel"].script().count("alloc_buffer") == 2


def test_values_are_kept_and_the_plan_has_the_workspace():
    x = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
    plain, lent = planned(two_calls()), planned(hoist_workspaces(two_calls()))
    np.testing.assert_array_equal(run(lent, x), run(plain, x))
    np.testing.assert_array_equal(run(lent, x), ((x + 1) * 2 + 1) * 2)
    # In both calls beside the tensor between these, and at the same two places.
    places = [int(c.args[1].value) for c in calls(lent, "relax.memory.alloc_tensor")]
    assert len(places) == 5
    assert len(set(places)) == 3


def test_a_module_without_workspaces_is_as_it_was():
    mod = hoist_workspaces(two_calls())
    tvm.ir.assert_structural_equal(hoist_workspaces(mod), mod)
