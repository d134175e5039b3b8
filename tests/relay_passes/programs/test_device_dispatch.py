# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax import op

from relay_passes.ir.sources import bindings_of, unnamed_calls
from relay_passes.ir.upstream import run_upstream
from relay_passes.memory.plan_arena import plan_arena
from relay_passes.memory.storage_offsets import accept_offsets
from relay_passes.programs.device_dispatch import Offer, dispatch, inline_marked
from relay_passes.programs.outline import Part, outline
from tests.relay_passes.graphs import Net, tensor
from tests.relay_passes.memory.test_plan_arena import TO_CALLS
from tests.relay_passes.memory.test_plan_arena import run as run_planned

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
OFFER, PLACE = "tests.dispatch.offer", 7


def outlined() -> tvm.IRModule:
    """A part with several results, one of which is another look at its input."""
    net, x = Net(), tensor("x", 4, 6)

    def body() -> relax.Expr:
        a = net.emit("a", op.multiply(x, x))
        b = net.emit("b", op.negative(a))
        c = net.emit("c", op.abs(b))
        d = net.emit("d", op.sqrt(c))
        look = net.emit("look", op.reshape(a, (6, 4)))
        e = net.emit("e", op.matmul(d, look))
        f = net.emit("f", op.add(e, net.emit("g", op.sum(b, axis=1, keepdims=True))))
        return net.emit("h", op.sqrt(f))

    mod = net.module([x], body)
    v = {str(b.var.name): b.var for b in bindings_of(mod["main"])}
    inner = frozenset(v[name] for name in ("b", "c", "d", "look"))
    return outline(mod, [Part("part", inner, (v["a"],), (v["b"], v["d"], v["look"]))])


def planned(mod: tvm.IRModule, offers: dict[str, Offer]) -> tvm.IRModule:
    with tvm.target.Target("llvm"):
        for upstream in TO_CALLS:
            mod = run_upstream(mod, upstream)
        mod = run_upstream(inline_marked(mod, list(offers)), relax.transform.StaticPlanBlockMemory())
        mod = plan_arena(mod)
    return dispatch(mod, offers)


OFFERS = {"part": Offer(OFFER, (relax.prim_value(PLACE),))}


def run(mod: tvm.IRModule, answer: bool) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """The result, and the shapes that were offered; an offer that is taken gives 2, 3 and what nobody reads."""
    offered: list[tuple[int, ...]] = []

    def offer(place: int, data: tvm.runtime.Tensor, *outputs: tvm.runtime.Tensor) -> bool:
        assert place == PLACE
        np.testing.assert_array_equal(data.numpy(), X * X)
        offered.extend(tuple(output.shape) for output in outputs)
        if answer:
            for value, output in enumerate(outputs, start=2):
                output.copyfrom(np.full(output.shape, value, np.float32))
        return answer

    tvm.register_global_func(OFFER, offer, override=True)
    return run_planned(accept_offsets(mod), X), offered


def calls(mod: tvm.IRModule, name: str) -> list[Call]:
    values = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, Call)]
    return [value for value in values if getattr(value.op, "name", "") == name]


def test_a_refused_offer_is_computed_by_the_functions_kernels():
    mod = outlined()
    plain = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())["main"](tvm.runtime.tensor(X))
    found, offered = run(planned(mod, OFFERS), answer=False)
    assert offered == [(4, 6), (4, 6), (6, 4)]
    # Sums in another order.
    np.testing.assert_allclose(found, plain.numpy(), rtol=1e-5)


def test_what_an_offer_writes_is_what_is_read():
    found, _ = run(planned(outlined(), OFFERS), answer=True)
    # b = 2, d = 3; `look` is the data itself, whatever is written for it.
    expected = np.sqrt(np.full((4, 6), 3) @ (X * X).reshape(6, 4) + np.full((4, 1), 2 * 6))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_memory_is_that_of_a_plan_without_offers():
    with_offers = planned(outlined(), OFFERS)
    inlined = outlined()
    inlined["main"] = inlined["main"].inline_functions({"part": inlined["part"]})
    del inlined["part"]
    sizes = [
        [int(call.args[0].values[0]) for call in calls(mod, "relax.memory.alloc_storage")]
        for mod in (with_offers, planned(inlined, {}))
    ]
    spare = 6 * 4 * 4  # for the look
    assert sizes[0][0] <= sizes[1][0] + spare
    assert len(sizes[0]) == 1


def test_what_only_the_kernels_need_is_allocated_where_they_are():
    (choice,) = [
        b.value for b in bindings_of(planned(outlined(), OFFERS)["main"]) if isinstance(b.value, relax.If)
    ]
    ops = [
        getattr(b.value.op, "name", "kernel")
        for block in choice.false_branch.blocks
        for b in block.bindings
        if isinstance(b.value, Call)
    ]
    assert ops.count("kernel") == 3
    assert ops.count("relax.memory.alloc_tensor") == 1  # c
    assert not [b for block in choice.true_branch.blocks for b in block.bindings if isinstance(b.value, Call)]


def test_every_call_keeps_its_source():
    assert unnamed_calls(planned(outlined(), OFFERS)) == []


@pytest.mark.parametrize("step", [inline_marked, dispatch])
def test_without_offers_nothing_changes(step: object):
    mod = outlined()
    assert step(mod, {}).same_as(mod)  # type: ignore[operator]
