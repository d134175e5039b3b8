# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N812 - TVMScript's R
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.script import relax as R

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.fusion.fuse import fuse
from relay_passes.ir.sources import bindings_of, function_sources, sources_of
from relay_passes.ir.upstream import run_upstream
from relay_passes.ir.verify import verify
from relay_passes.rewriter.record import RewriteRecord
from schedules.diagnostic import Diagnostic
from tests.relay_passes.graphs import GRAPHS, Net, inputs_of, operators, run, tensor, transformer_block


@dataclass(frozen=True)
class Step:
    op: str
    operand: str | None = None
    broadcast: str | None = None
    required: bool = False
    retypes: bool = False
    registers: int = 0
    also: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    weighed: bool = False


@dataclass(frozen=True)
class Spec:
    name: str
    anchor: str
    constant_operands: tuple[int, ...]
    dtypes: tuple[str, ...]
    epilogue: tuple[Step, ...]
    anchor_dtype: str = ""
    pad: bool = False
    permuted: tuple[tuple[int, int], ...] = ()
    constant_dtype: str = ""
    spare_registers: int = 0
    widened: str = ""


BIAS = Step("relax.add", "constant", "last-axis")
RESIDUAL = Step("relax.add", "tensor", "same-shape")
LINEAR = Spec(
    "arm.linear",
    "relax.matmul",
    (1,),
    ("float32",),
    (BIAS, RESIDUAL, Step("relax.nn.relu"), Step("relax.clip")),
)
ATTENTION = Spec(
    "arm.attention",
    "relax.matmul",
    (),
    ("float32",),
    (
        Step("relax.multiply", "constant", "scalar"),
        Step("relax.add", "any", "any"),
        Step("relax.nn.softmax", required=True),
        Step("relax.matmul", "tensor", "contracted", required=True),
    ),
)
Tail = Callable[[Net, Expr, Expr], Expr]


def _linear(tail: Tail, *, weight_input: bool = False, dtype: str = "float32") -> tvm.IRModule:
    """matmul of (7, 9) with (9, 31), and what `tail` (net, matmul, another input of its shape) makes of it."""
    net, x, r = Net(), tensor("x", 7, 9, dtype=dtype), tensor("r", 7, 31, dtype=dtype)
    w = tensor("w", 9, 31, dtype=dtype)

    def body() -> Expr:
        weight = w if weight_input else relax.const(net.rng.uniform(-1, 1, (9, 31)).astype(dtype))
        return tail(net, net.emit("mm", op.matmul(x, weight)), r)

    return net.module([x, *([w] if weight_input else []), r], body)


def _without_aliases(mod: tvm.IRModule) -> tvm.IRModule:
    """As importers leave it; rules might merge steps."""
    return run_upstream(mod, relax.transform.CanonicalizeBindings())


def _composites(mod: tvm.IRModule) -> dict[str, list[str]]:
    """Operators inside each composite, by its function's name."""
    return {
        str(gv.name_hint): operators(func)
        for gv, func in mod.functions_items()
        if isinstance(func, relax.Function) and func.attrs and "Composite" in func.attrs
    }


def _bias(net: Net, y: Expr, _r: Expr) -> Expr:
    return net.emit("bias", op.add(y, net.const(31)))


def _everything(net: Net, y: Expr, r: Expr) -> Expr:
    y = net.emit("residual", op.add(r, _bias(net, y, r)))
    return net.emit("clip", op.clip(net.emit("relu", op.nn.relu(y)), 0.0, 6.0))


def _branch_after_bias(net: Net, y: Expr, r: Expr) -> Expr:
    biased = _bias(net, y, r)
    return net.emit("sum", op.add(net.emit("relu", op.nn.relu(biased)), net.emit("exp", op.exp(biased))))


CHAINS: dict[str, tuple[Tail, list[str]]] = {
    "nothing": (lambda _net, y, _r: y, ["matmul"]),
    "bias": (_bias, ["matmul", "add"]),
    "bias on the left": (lambda net, y, _: net.emit("bias", op.add(net.const(31), y)), ["matmul", "add"]),
    "bias with leading axes": (
        lambda net, y, _: net.emit("bias", op.add(y, net.const(1, 31))),
        ["matmul", "add"],
    ),
    "residual without bias": (lambda net, y, r: net.emit("res", op.add(y, r)), ["matmul", "add"]),
    "relu without bias": (lambda net, y, _: net.emit("relu", op.nn.relu(y)), ["matmul", "nn.relu"]),
    "all steps": (_everything, ["matmul", "add", "add", "nn.relu", "clip"]),
    # What the vocabulary does not allow ends the composite before it.
    "unknown step": (lambda net, y, _: net.emit("exp", op.exp(y)), ["matmul"]),
    "step twice": (
        lambda net, y, _: net.emit("relu2", op.nn.relu(net.emit("relu", op.nn.relu(y)))),
        ["matmul", "nn.relu"],
    ),
    "wrong order": (lambda net, y, r: _bias(net, net.emit("relu", op.nn.relu(y)), r), ["matmul", "nn.relu"]),
    "bias along rows": (lambda net, y, _: net.emit("bias", op.add(y, net.const(7, 1))), ["matmul"]),
    "bias of one number": (lambda net, y, _: net.emit("bias", op.add(y, net.const(1))), ["matmul"]),
    "constant of full shape": (lambda net, y, _: net.emit("bias", op.add(y, net.const(7, 31))), ["matmul"]),
    "bias that adds an axis": (
        lambda net, y, _: net.emit("bias", op.add(y, net.const(1, 1, 31))),
        ["matmul"],
    ),
    "value added to itself": (lambda net, y, _: net.emit("twice", op.add(y, y)), ["matmul"]),
    "second consumer": (
        lambda net, y, r: net.emit("sum", op.add(_bias(net, y, r), net.emit("exp", op.exp(y)))),
        ["matmul"],
    ),
    "second consumer after a step": (_branch_after_bias, ["matmul", "add"]),
    "value that is an output": (lambda net, y, r: relax.Tuple([y, _bias(net, y, r)]), ["matmul"]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_composite_is_the_longest_allowed_chain(name: str) -> None:
    tail, inside = CHAINS[name]
    mod = _without_aliases(_linear(tail))
    fused = verify(fuse(mod, (LINEAR,)), after="fuse")
    assert _composites(fused) == {"arm_linear_mm": inside}
    assert len(operators(fused["main"])) == len(operators(mod["main"])) - len(inside) + 1


@pytest.mark.parametrize(
    "mod",
    [_linear(_bias, weight_input=True), _linear(lambda _n, y, _r: y, dtype="float16")],
    ids=["weight is an input", "dtype"],
)
def test_an_anchor_outside_the_vocabulary_is_left(mod: tvm.IRModule) -> None:
    mod = canonicalize(mod)
    tvm.ir.assert_structural_equal(fuse(mod, (LINEAR,)), mod)


def test_a_value_that_is_returned_ends_its_composite() -> None:
    @R.function
    def main(x: R.Tensor((7, 9), "float32"), w: R.Tensor((9, 31), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            R.output(y, z)
        return (y, z)

    mod = tvm.IRModule({"main": main.bind_params({"w": np.ones((9, 31), "float32")})})
    assert _composites(fuse(mod, (LINEAR,))) == {"arm_linear_y": ["matmul"]}


def test_the_form_of_a_composite() -> None:
    fused = fuse(_without_aliases(_linear(_everything)), (LINEAR,))
    func = fused["arm_linear_mm"]
    assert func.attrs["Composite"] == "arm.linear"
    assert func.attrs["Primitive"]
    assert "global_symbol" not in func.attrs
    assert [p.name for p in func.params] == ["x", "r"]
    bindings = bindings_of(func)
    assert [sources_of(b.value) for b in bindings] == [
        ("mm",),
        ("bias",),
        ("residual",),
        ("relu",),
        ("clip",),
    ]
    assert not isinstance(bindings[-1].var, relax.DataflowVar)
    (call,) = [b.value for b in bindings_of(fused["main"])]
    assert sources_of(call) == ("mm", "bias", "residual", "relu", "clip")
    assert function_sources(fused) == {"arm_linear_mm": ("mm", "bias", "residual", "relu", "clip")}


def test_the_first_spec_that_fits_an_anchor_takes_it() -> None:
    bare = replace(LINEAR, name="arm.bare", epilogue=())
    mod = canonicalize(_linear(_bias))
    assert _composites(fuse(mod, (bare, LINEAR))) == {"arm_bare_mm": ["matmul"]}


def test_a_composite_is_not_fused_again() -> None:
    fused = fuse(canonicalize(_linear(_bias)), (LINEAR,))
    tvm.ir.assert_structural_equal(fuse(fused, (LINEAR,)), fused)


def test_two_anchors_that_meet_take_the_sum_once() -> None:
    net, x = Net(), tensor("x", 7, 9)

    def body() -> Expr:
        left = net.emit("left", op.matmul(x, net.const(9, 31)))
        right = net.emit("right", op.matmul(x, net.const(9, 31)))
        return net.emit("sum", op.add(left, right))

    mod = net.module([x], body)
    fused = verify(fuse(canonicalize(mod), (LINEAR,)), after="fuse")
    assert _composites(fused) == {"arm_linear_left": ["matmul", "add"], "arm_linear_right": ["matmul"]}
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(fused, *inputs), run(mod, *inputs))


@pytest.mark.parametrize("graph", GRAPHS)
def test_values_are_kept_bit_for_bit(graph: str) -> None:
    mod = canonicalize(GRAPHS[graph]())
    fused = verify(fuse(mod, (LINEAR,)), after="fuse")
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(fused, *inputs), run(mod, *inputs))


def test_the_same_input_gives_the_same_text() -> None:
    first, second = (fuse(canonicalize(transformer_block()), (LINEAR,)) for _ in range(2))
    assert first.script() == second.script()
    assert set(_composites(first)) == {"arm_linear_fc1", "arm_linear_fc2"}


def explain_fuse(mod: tvm.IRModule, vocabulary: Sequence[Spec]) -> list[Diagnostic]:
    """Why each composite takes in no more, and why each other anchor is none."""
    record = RewriteRecord()
    fuse(mod, vocabulary, record=record)
    return [why for done in record.passes.values() for why in done.rejected]


# Why each chain above ends, and what else an anchor may meet.
ENDS: dict[str, tuple[Tail, str]] = {
    "nothing": (lambda _net, y, _r: y, "mm: its value is an output"),
    "unknown step": (
        lambda net, y, _: net.emit("exp", op.exp(y)),
        "mm: exp: relax.exp is no epilogue step of arm.linear",
    ),
    "step twice": (
        lambda net, y, _: net.emit("relu2", op.nn.relu(net.emit("relu", op.nn.relu(y)))),
        "relu: relu2: relax.nn.relu comes in the wrong order, or a second time",
    ),
    "bias along rows": (
        lambda net, y, _: net.emit("bias", op.add(y, net.const(7, 1))),
        "mm: bias: its other operand's shape does not fit (expected last-axis, found (7, 1))",
    ),
    "bias that adds an axis": (
        lambda net, y, _: net.emit("bias", op.add(y, net.const(1, 1, 31))),
        'mm: bias: it changes the shape or dtype (expected R.Tensor((7, 31), dtype="float32"),'
        ' found R.Tensor((1, 7, 31), dtype="float32"))',
    ),
    "value added to itself": (
        lambda net, y, _: net.emit("twice", op.add(y, y)),
        "mm: twice: it has another number of further operands (expected 1, found 0)",
    ),
    "second consumer": (
        lambda net, y, r: net.emit("sum", op.add(_bias(net, y, r), net.emit("exp", op.exp(y)))),
        "mm: its value has several readers (expected 1, found bias, exp)",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_it_is_known_why_a_composite_ends(name: str) -> None:
    tail, why = ENDS[name]
    assert [str(end) for end in explain_fuse(_without_aliases(_linear(tail)), (LINEAR,))] == [why]


def test_it_is_known_why_an_anchor_is_left() -> None:
    mods = (_linear(_bias, weight_input=True), _linear(lambda _n, y, _r: y, dtype="float16"))
    assert [str(why) for mod in mods for why in explain_fuse(mod, (LINEAR,))] == [
        "mm: no arm.linear: operand 1 is not a constant",
        "mm: no arm.linear: the data's dtype is not supported (expected float32, found float16)",
    ]


def test_a_record_names_what_was_formed_of_each_composite() -> None:
    mods = (_linear(_bias), _linear(_bias, weight_input=True))
    for mod, applied in zip(mods, [(("mm", "bias"),), ()], strict=True):
        record = RewriteRecord()
        fuse(_without_aliases(mod), (LINEAR, ATTENTION), record=record)
        assert {name: done.applied for name, done in record.passes.items()} == {
            "fuse:linear": applied,
            "fuse:attention": (),
        }
        assert record.hits()["fuse:linear"] == len(applied)


def test_the_second_of_two_anchors_that_meet_knows_the_first() -> None:
    net, x = Net(), tensor("x", 7, 9)

    def body() -> Expr:
        left = net.emit("left", op.matmul(x, net.const(9, 31)))
        return net.emit("sum", op.add(left, net.emit("right", op.matmul(x, net.const(9, 31)))))

    ends = explain_fuse(_without_aliases(net.module([x], body)), (LINEAR,))
    assert [str(end) for end in ends] == [
        "sum: its value is an output",
        "right: sum belongs to another composite",
    ]


def test_equal_composites_keep_their_own_names() -> None:
    net, x = Net(), tensor("x", 9, 9)
    weight = net.const(9, 9)

    def body() -> Expr:
        first = net.emit("exp", op.exp(net.emit("first", op.matmul(x, weight))))
        return net.emit("second", op.matmul(first, weight))

    fused = fuse(_without_aliases(net.module([x], body)), (LINEAR,))
    assert function_sources(fused) == {"arm_linear_first": ("first",), "arm_linear_second": ("second",)}
