# SPDX-License-Identifier: Apache-2.0
"""Composites with steps that they cannot be without: attention; of integers, with a pad and a numerics' routine."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.fusion.fuse import fuse
from relay_passes.ir.sources import function_sources
from relay_passes.ir.upstream import run_upstream
from relay_passes.ir.verify import verify
from relay_passes.rewriter.record import RewriteRecord
from tests.relay_passes.forms import Ops, form
from tests.relay_passes.fusion.test_fuse import ATTENTION, LINEAR, Spec, Step, explain_fuse
from tests.relay_passes.graphs import Net, inputs_of, operators, run, tensor

# Queries, transposed keys, values, and a mask: 9 queries look at 7 keys.
Q, K, V, MASK = (1, 2, 9, 8), (1, 2, 8, 7), (1, 2, 7, 5), (1, 1, 9, 7)
INF = float("inf")
CAUSAL = np.where(np.tri(9, 7) > 0, 0.0, -1e9)[None, None]
Write = Callable[[Ops, Expr, Expr, Expr, Expr], Expr]


def _attention(
    scale: Callable[[Ops, Expr], Expr] = lambda ops, s: ops.multiply(s, 0.5),
    mask: Callable[[Ops, Expr, Expr], Expr] = lambda ops, s, m: ops.add(s, m),
    axis: int = -1,
) -> Write:
    def write(ops: Ops, q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        scores = mask(ops, scale(ops, ops.matmul(q, k)), m)
        return ops.matmul(ops("nn.softmax", scores, axis=axis), v)

    return write


def _module(write: Write, v: tuple[int, ...] = V) -> tvm.IRModule:
    return run_upstream(form(write, Q, K, v, MASK), relax.transform.CanonicalizeBindings())


def _inside(mod: tvm.IRModule) -> list[list[str]]:
    return [
        operators(func)
        for _, func in mod.functions_items()
        if isinstance(func, relax.Function) and func.attrs and "Composite" in func.attrs
    ]


def _nothing(_ops: Ops, scores: Expr, *_: Expr) -> Expr:
    return scores


FORMS: dict[str, tuple[Write, list[str]]] = {
    "scale and mask": (_attention(), ["matmul", "multiply", "add", "nn.softmax", "matmul"]),
    "scale on the left": (
        _attention(lambda ops, s: ops.multiply(0.5, s)),
        ["matmul", "multiply", "add", "nn.softmax", "matmul"],
    ),
    "no scale": (_attention(_nothing), ["matmul", "add", "nn.softmax", "matmul"]),
    "no mask": (_attention(mask=_nothing), ["matmul", "multiply", "nn.softmax", "matmul"]),
    "neither": (_attention(_nothing, _nothing), ["matmul", "nn.softmax", "matmul"]),
    "constant mask on the left": (
        _attention(mask=lambda ops, s, _: ops.add(CAUSAL, s)),
        ["matmul", "multiply", "add", "nn.softmax", "matmul"],
    ),
    "axis from the left": (_attention(axis=3), ["matmul", "multiply", "add", "nn.softmax", "matmul"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_attention_is_one_composite_and_computes_the_same(name: str) -> None:
    write, inside = FORMS[name]
    mod = _module(write)
    fused = verify(fuse(mod, (LINEAR, ATTENTION)), after="fuse")
    assert _inside(fused) == [inside]
    assert function_sources(fused) == {
        "arm_attention_matmul": tuple(dict.fromkeys(inside)),
    }
    assert len(operators(fused["main"])) == 1
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(fused, *inputs), run(mod, *inputs))


def _shared(ops: Ops, q: Expr, k: Expr, v: Expr, _m: Expr) -> Expr:
    p = ops("nn.softmax", ops.matmul(q, k))
    return ops.add(ops.matmul(p, v), ops.sum(p, -1, keepdims=True))


def _values_first(ops: Ops, q: Expr, k: Expr, _v: Expr, _m: Expr) -> Expr:
    return ops.matmul(ops.permute_dims(q, [0, 1, 3, 2]), ops("nn.softmax", ops.matmul(q, k)))


def _constant_values(ops: Ops, q: Expr, k: Expr, _v: Expr, _m: Expr) -> Expr:
    return ops.matmul(ops("nn.softmax", ops.matmul(q, k)), np.ones((1, 2, 7, 5)))


NO_SOFTMAX = "relax.nn.softmax is missing; "
NO_VALUES = "relax.matmul is missing; "
NEAR_MISSES: dict[str, Write] = {
    f"{NO_SOFTMAX}divide: relax.divide is no epilogue step of arm.attention": _attention(
        lambda ops, s: ops.divide(s, 3.0)
    ),
    f"{NO_SOFTMAX}multiply: its other operand's shape does not fit (expected scalar, found (7,))": _attention(
        lambda ops, s: ops.multiply(s, np.arange(7.0))
    ),
    f"{NO_SOFTMAX}nn.softmax: it goes along another axis than the last (expected 3, found 2)": _attention(
        axis=2
    ),
    f"{NO_SOFTMAX}multiply: relax.multiply comes in the wrong order, or a second time": _attention(
        mask=lambda ops, s, m: ops.multiply(ops.add(s, m), 2.0)
    ),
    f"{NO_SOFTMAX}matmul: relax.matmul comes in the wrong order, or a second time": lambda ops, q, k, v, _: (
        ops.matmul(ops.matmul(q, k), v)
    ),
    f"{NO_VALUES}its value has several readers (expected 1, found matmul, sum)": _shared,
    f"{NO_VALUES}matmul: the value is not its first operand": _values_first,
    f"{NO_VALUES}matmul: its other operand is of another kind (expected tensor, found constant)": _constant_values,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_it_is_known_why_there_is_no_attention(reason: str) -> None:
    mod = _module(NEAR_MISSES[reason])
    assert _inside(fuse(mod, (ATTENTION,))) == []
    assert f"matmul: no arm.attention: {reason}" in [str(why) for why in explain_fuse(mod, (ATTENTION,))]


def test_values_for_all_heads_at_once_are_no_step() -> None:
    mod = _module(_attention(), v=(7, 5))
    assert "its other operand's shape does not fit (expected contracted, found (7, 5))" in str(
        explain_fuse(mod, (ATTENTION,))[0]
    )


def test_a_product_with_a_constant_is_left_to_its_own_composite() -> None:
    def write(ops: Ops, q: Expr, _k: Expr, v: Expr, _m: Expr) -> Expr:
        return ops.matmul(ops("nn.softmax", ops.matmul(q, np.ones((8, 7)))), v)

    assert _inside(fuse(_module(write), (LINEAR, ATTENTION))) == [["matmul"]]


def _heads(axes: tuple[int, ...], *, twice: bool = False) -> tvm.IRModule:
    """Attention whose keys are permuted; `twice` if the permuted keys are an operand of the mask, too."""

    def write(ops: Ops, q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        keys = ops.permute_dims(k, axes=list(axes))
        mask = ops.add(m, ops.sum(keys)) if twice else m
        return _attention()(ops, q, keys, v, mask)

    shape = tuple(K[axes.index(axis)] for axis in range(len(K)))
    return run_upstream(form(write, Q, shape, V, MASK), relax.transform.CanonicalizeBindings())


PERMUTED = dataclasses.replace(ATTENTION, permuted=((0, 1), (1, 2)))


def _outside(mod: tvm.IRModule) -> list[str]:
    return operators(fuse(mod, (PERMUTED,))["main"])


@pytest.mark.parametrize("axes", [(0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2)])
def test_a_permutation_of_an_operand_is_part_of_the_composite(axes: tuple[int, ...]) -> None:
    mod = _heads(axes)
    fused = fuse(mod, (PERMUTED,))
    verify(fused, "fuse")
    assert "permute_dims" not in _outside(mod)
    assert _inside(fused) == [["permute_dims", "matmul", "multiply", "add", "nn.softmax", "matmul"]]
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(mod, *inputs), run(fused, *inputs))


def test_a_permutation_that_scatters_a_head_or_is_needed_elsewhere_stays() -> None:
    assert "permute_dims" in _outside(_heads((3, 0, 1, 2)))
    assert "permute_dims" in _outside(_heads((0, 2, 3, 1), twice=True))


HALVES = dataclasses.replace(
    PERMUTED,
    epilogue=(*ATTENTION.epilogue, Step("relax.astype", retypes=True, to=("float16",))),
    widened="float16",
)


def _halves(to: str = "float16", *, twice: bool = False) -> tvm.IRModule:
    """Attention between casts, the keys' behind a permutation; `twice` if the values are part of the mask, too."""
    net = Net()
    q, k, v = (
        tensor(name, *shape, dtype="float16") for name, shape in (("q", Q), ("k", (1, 7, 2, 8)), ("v", V))
    )
    mask = tensor("m", *MASK)

    def body() -> Expr:
        keys = net.emit("keys", op.permute_dims(k, [0, 2, 3, 1]))
        wide = [net.emit(f"wide_{i}", op.astype(x, "float32")) for i, x in enumerate((q, keys, v))]
        around = net.emit("around", op.add(mask, net.emit("all", op.sum(wide[2])))) if twice else mask
        scores = net.emit("scores", op.add(net.emit("mm", op.matmul(*wide[:2])), around))
        shares = net.emit("softmax", op.nn.softmax(scores))
        narrow = net.emit("narrow", op.astype(net.emit("values", op.matmul(shares, wide[2])), to))
        return net.emit("act", op.nn.relu(net.emit("back", op.astype(narrow, "float32"))))

    mod = net.module([q, k, v, mask], body)
    return run_upstream(mod, relax.transform.CanonicalizeBindings())


def test_casts_of_operands_and_of_the_result_are_part_of_the_composite() -> None:
    mod = _halves()
    fused = fuse(mod, (HALVES,))
    verify(fused, "fuse")
    (inside,) = _inside(fused)
    assert sorted(inside[:4]) == ["astype", "astype", "astype", "permute_dims"]
    assert inside[4:] == ["matmul", "add", "nn.softmax", "matmul", "astype"]
    assert operators(fused["main"])[-2:] == ["astype", "nn.relu"]
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(mod, *inputs), run(fused, *inputs))


def test_a_cast_that_is_needed_elsewhere_or_of_another_dtype_stays() -> None:
    (inside,) = _inside(fuse(_halves(twice=True), (HALVES,)))
    assert inside.count("astype") == 3
    (inside,) = _inside(fuse(_halves(), (dataclasses.replace(HALVES, widened="bfloat16"),)))
    assert inside.count("astype") == 1
    (inside,) = _inside(fuse(_halves("float64"), (HALVES,)))
    assert inside[-1] == "matmul"
    assert "its result's dtype is not one that the step takes (expected float16, found float64)" in str(
        explain_fuse(_halves("float64"), (HALVES,))[0]
    )


REQUANTIZE = Step("qdq.requantize", required=True, retypes=True)
INTEGER = Spec(
    "arm.conv_s8",
    "relax.nn.conv2d",
    (1,),
    ("int8",),
    (Step("relax.add", "constant", "any"), REQUANTIZE),
    anchor_dtype="int32",
    pad=True,
)
X = (1, 4, 5, 3)
Y = (1, 4, 5, 2)


def _requantize(numerics: str) -> tvm.tirx.PrimFunc:
    """int32 to int8; what matters here is what it says it computes."""
    acc = te.placeholder(Y, "int32", "acc")
    out = te.compute(Y, lambda *i: acc(*i).astype("int8"), "out")
    func = te.create_prim_func([acc, out], index_dtype_override="int64").without_attr("global_symbol")
    return func.with_attr("numerics", numerics)


def _convolution(
    *, numerics: str = "qdq.requantize", acc: str = "int32", readers: int = 1, mode: str = "constant"
) -> tvm.IRModule:
    """A padded convolution with an offset, requantised; `readers` calls read the padded data."""
    net, x = Net(), tensor("x", *X, dtype="int8")

    def body() -> Expr:
        padded = net.emit("pad", op.nn.pad(x, [0, 0, 1, 1, 1, 1, 0, 0], mode, -7.0))
        w = relax.const(np.ones((2, 3, 3, 3), "int8"))
        layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
        conv = net.emit("conv", op.nn.conv2d(padded, w, **layouts, out_dtype=acc))
        offset = relax.const(np.ones((1, 1, 1, 2), acc))
        value = net.emit("sum", op.add(conv, offset))
        if acc == "int32":
            gvar = net.bb.add_func(_requantize(numerics), "requantize")
            value = net.emit("q", relax.call_tir(gvar, [value], tensor("y", *Y, dtype="int8").ty))
        others = [net.emit(f"relu{i}", op.nn.relu(padded)) for i in range(readers - 1)]
        return relax.Tuple([value, *others]) if others else value

    return net.module([x], body)


CALLS = ["nn.conv2d", "add", "call_tir"]


def test_integers_are_one_composite_with_their_pad_and_their_routine() -> None:
    fused = verify(fuse(_convolution(), (INTEGER,)), after="fuse")
    assert _inside(fused) == [["nn.pad", *CALLS]]
    assert len(operators(fused["main"])) == 1


def test_a_routine_may_stand_in_the_place_of_another() -> None:
    mod = _convolution(numerics="tosa.requantize")
    assert _inside(fuse(mod, (INTEGER,))) == []
    either = dataclasses.replace(REQUANTIZE, also=("tosa.requantize",))
    spec = dataclasses.replace(INTEGER, epilogue=(INTEGER.epilogue[0], either))
    assert _inside(fuse(mod, (spec,))) == _inside(fuse(_convolution(), (spec,))) == [["nn.pad", *CALLS]]


@pytest.mark.parametrize("changes", [{"readers": 2}, {"mode": "reflect"}], ids=str)
def test_a_pad_that_is_needed_elsewhere_or_is_no_constant_stays(changes: dict[str, Any]) -> None:
    assert _inside(fuse(_convolution(**changes), (INTEGER,))) == [CALLS]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"numerics": "qdq.table"},
            "qdq.requantize is missing; q: qdq.table is no epilogue step of arm.conv_s8",
        ),
        ({"acc": "int16"}, "its value has another dtype (expected int32, found int16)"),
    ],
    ids=["routine", "accumulator"],
)
def test_it_is_known_why_there_is_no_integer_composite(changes: dict[str, Any], reason: str) -> None:
    mod = _convolution(**changes)
    assert _inside(fuse(mod, (INTEGER,))) == []
    assert [str(why) for why in explain_fuse(mod, (INTEGER,))] == [f"conv: no arm.conv_s8: {reason}"]


def test_only_a_step_that_may_change_the_dtype_does() -> None:
    strict = dataclasses.replace(REQUANTIZE, retypes=False, required=False)
    spec = dataclasses.replace(INTEGER, epilogue=(INTEGER.epilogue[0], strict))
    assert _inside(fuse(_convolution(), (spec,))) == [["nn.pad", "nn.conv2d", "add"]]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Costs that say the same of every composite, and what they were asked about."""

    answer: tuple[str, str, str] | None
    asked: list[list[str]] = dataclasses.field(default_factory=list)

    def dearer(
        self, composite: relax.Function, routines: Mapping[str, tvm.tirx.PrimFunc]
    ) -> tuple[str, str, str] | None:
        assert "requantize" in routines
        self.asked.append(operators(composite))
        return self.answer


DEARER = ("with it the kernel waits", "9", "10")


@pytest.mark.parametrize(
    ("costs", "inside"),
    [(Verdict(None), CALLS), (Verdict(DEARER), CALLS[:-1]), (None, CALLS[:-1])],
    ids=["cheaper", "dearer", "unknown"],
)
def test_a_step_that_is_weighed_is_taken_where_it_is_not_dearer(
    costs: Verdict | None, inside: list[str]
) -> None:
    weighed = dataclasses.replace(REQUANTIZE, weighed=True, required=False)
    spec = dataclasses.replace(INTEGER, epilogue=(INTEGER.epilogue[0], weighed))
    record = RewriteRecord()
    fused = fuse(_convolution(), (spec,), costs, record)
    assert _inside(fused) == [["nn.pad", *inside]]
    if costs is not None:
        assert costs.asked == [["nn.pad", *CALLS]]
    if inside is not CALLS:
        (why,) = (why for done in record.passes.values() for why in done.rejected)
        expected = (
            "no estimate says whether it is cheaper inside" if costs is None else "with it the kernel waits"
        )
        assert why.reason == f"q: {expected}"


@pytest.mark.parametrize("registers", [3, 4])
def test_a_step_that_needs_more_registers_than_the_tile_leaves_is_refused(registers: int) -> None:
    keeps = dataclasses.replace(REQUANTIZE, registers=registers, required=False)
    offset = dataclasses.replace(INTEGER.epilogue[0], registers=1)
    spec = dataclasses.replace(INTEGER, epilogue=(offset, keeps), spare_registers=4)
    mod = _convolution()
    fits = registers == 3
    assert _inside(fuse(mod, (spec,))) == [["nn.pad", *(CALLS if fits else CALLS[:-1])]]
    (why,) = explain_fuse(mod, (spec,))
    if not fits:
        assert why.reason == "q: qdq.requantize would spill: vector registers that it needs beside the tile's"
        assert (why.limit, why.actual) == ("at most 3", "4")
