# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import TupleGetItem, Var
from tvm.relax import op

from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from relay_passes.programs.outline import Part, outline
from tests.relay_passes.graphs import Net, tensor

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def graph() -> tuple[tvm.IRModule, dict[str, Var]]:
    """Two chains whose bindings alternate, and halves of one value."""
    net, x = Net(), tensor("x", 4, 6)

    def body() -> relax.Expr:
        a = net.emit("a", op.exp(x))
        p = net.emit("p", op.negative(x))
        b = net.emit("b", op.add(a, a))
        q = net.emit("q", op.abs(p))
        halves = net.emit("halves", op.split(b, 2, axis=1))
        left, right = (net.emit(name, TupleGetItem(halves, i)) for i, name in enumerate(("left", "right")))
        c = net.emit("c", op.sqrt(left))
        d = net.emit("d", op.multiply(right, c))
        return net.emit("e", op.concat([d, q, b], axis=1))

    mod = net.module([x], body)
    by_name = {str(b.var.name): b.var for b in bindings_of(mod["main"])}
    return mod, {"x": mod["main"].params[0], **by_name}


def part(variables: dict[str, Var], name: str, inner: str, inputs: str, outputs: str) -> Part:
    def of(names: str) -> list[Var]:
        return [variables[each] for each in names.split()]

    return Part(name, frozenset(of(inner)), tuple(of(inputs)), tuple(of(outputs)))


def run(mod: tvm.IRModule) -> np.ndarray:
    return relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())["main"](tvm.runtime.tensor(X)).numpy()


def bound(func: relax.Function) -> list[str]:
    return [str(b.var.name) for b in bindings_of(func)]


def test_parts_become_functions_and_values_are_kept():
    mod, v = graph()
    parts = [part(v, "upper", "a b", "x", "b"), part(v, "lower", "p q", "x", "q")]
    outlined = outline(mod, parts)
    assert {gv.name_hint for gv in outlined.get_global_vars()} == {"main", "upper", "lower"}
    assert {"a", "p"}.isdisjoint(bound(outlined["main"]))
    assert bound(outlined["upper"])[:2] == ["a", "b"]
    np.testing.assert_array_equal(run(outlined), run(mod))


def test_a_call_has_the_sources_of_all_that_it_computes():
    mod, v = graph()
    outlined = outline(mod, [part(v, "upper", "a b", "x", "b")])
    assert unnamed_calls(outlined) == []
    (call,) = [b.value for b in bindings_of(outlined["main"]) if str(b.var.name) == "b"]
    assert sources_of(call) == ("a", "b")


def test_several_results_are_items_of_one():
    mod, v = graph()
    both = part(v, "both", "a p b q", "x", "b q")
    outlined = outline(mod, [both])
    assert isinstance(outlined["both"].ret_ty, relax.TupleType)
    np.testing.assert_array_equal(run(outlined), run(mod))


def test_what_a_part_needs_goes_before_it():
    mod, v = graph()
    # `q` stands before `right` and `c`, which the other half of the part reads.
    outlined = outline(mod, [part(v, "late", "q d", "p right c", "q d")])
    names = bound(outlined["main"])
    assert names.index("c") < names.index("q")
    np.testing.assert_array_equal(run(outlined), run(mod))


def test_equal_parts_are_functions_of_their_own():
    net, x = Net(), tensor("x", 4, 6)
    mod = net.module(
        [x], lambda: net.emit("c", op.negative(net.emit("b", op.negative(net.emit("a", op.exp(x))))))
    )
    v = {str(b.var.name): b.var for b in bindings_of(mod["main"])}
    outlined = outline(mod, [part(v, "first", "b", "a", "b"), part(v, "second", "c", "b", "c")])
    assert {gv.name_hint for gv in outlined.get_global_vars()} == {"main", "first", "second"}
    np.testing.assert_array_equal(run(outlined), run(mod))


def test_a_split_with_a_half_on_each_side_is_on_both():
    mod, v = graph()
    halves = part(v, "half", "halves left c", "b", "c")
    outlined = outline(mod, [halves])
    assert "halves" in bound(outlined["main"])
    assert "left" not in bound(outlined["main"])
    assert "halves" in bound(outlined["half"])
    np.testing.assert_array_equal(run(outlined), run(mod))


def test_what_a_part_reads_must_be_an_input():
    mod, v = graph()
    with pytest.raises(ValueError, match="lost reads a"):
        outline(mod, [part(v, "lost", "b", "x", "b")])


def test_no_parts_change_nothing():
    mod, _ = graph()
    assert outline(mod, []).same_as(mod)
