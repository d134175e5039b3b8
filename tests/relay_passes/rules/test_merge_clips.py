# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm.ir import Expr

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule
from relay_passes.rules.common.scalars import bounds
from relay_passes.rules.merge_clips import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import operators

INF = float("inf")
FORMS: dict[str, tuple[tuple[float, float], Callable[[Ops, Expr], Expr]]] = {
    "lower, then upper": ((0, 6), lambda ops, x: ops.clip(ops.clip(x, 0.0, INF), -INF, 6.0)),
    "upper, then lower": ((0, 6), lambda ops, x: ops.clip(ops.clip(x, -INF, 6.0), 0.0, INF)),
    "relu, then upper": ((0, 6), lambda ops, x: ops.clip(ops("nn.relu", x), -INF, 6.0)),
    "relu last": ((0, 6), lambda ops, x: ops("nn.relu", ops.clip(x, -1.0, 6.0))),
    "inner is tighter": ((1, 2), lambda ops, x: ops.clip(ops.clip(x, 1.0, 2.0), 0.0, 6.0)),
    "outer is below": ((-2, -2), lambda ops, x: ops.clip(ops.clip(x, 0.0, 6.0), -3.0, -2.0)),
    "outer bounds that cross": ((5, 5), lambda ops, x: ops.clip(ops.clip(x, 0.0, 6.0), 5.0, 1.0)),
    "both bounds cross": ((5, 5), lambda ops, x: ops.clip(ops.clip(x, 3.0, 2.0), 5.0, 1.0)),
    "inner bounds that cross": ((5, 5), lambda ops, x: ops.clip(ops.clip(x, 5.0, 1.0), 0.0, 6.0)),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_and_bounds_are_kept(name: str) -> None:
    expected, write = FORMS[name]
    mod = form(write, (2, 31))
    check_rewrite(mod, RULE, ["clip"], tolerance=0)
    assert bounds(_only_call(apply_rule(mod, RULE)[0])) == expected


def test_a_clip_that_something_else_needs_is_left() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        lower = ops("nn.relu", x)
        return ops.add(ops.clip(lower, -INF, 6.0), lower)

    assert refusal(form(write, (7,)), RULE) == "nn.relu is also needed by add"


def test_bounds_of_run_time_are_left() -> None:
    limit = tvm.tirx.Var("n", "int64")
    x = tvm.relax.Var("x", tvm.relax.TensorType((limit,), "float32"))
    bb = tvm.relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            inner = bb.emit(tvm.relax.op.clip(x, 0, limit))
            out = bb.emit_output(tvm.relax.op.clip(inner, 0.0, 6.0))
        bb.emit_func_output(out)
    assert refusal(bb.finalize(), RULE) == "a bound is computed at run time"


# What ONNX exporters write for ReLU6.
LO_HI = {"lo": np.float32(0), "hi": np.float32(6)}
RELU6 = {
    "opset 6": (6, [helper.make_node("Clip", ["x"], ["y"], min=0.0, max=6.0)], {}),
    "opset 11": (11, [helper.make_node("Clip", ["x", "lo", "hi"], ["y"])], LO_HI),
    "opset 13": (13, [helper.make_node("Clip", ["x", "lo", "hi"], ["y"])], LO_HI),
    "relu and min": (
        13,
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Min", ["r", "hi"], ["y"])],
        LO_HI,
    ),
    "max and min": (
        13,
        [helper.make_node("Max", ["lo", "x"], ["r"]), helper.make_node("Min", ["hi", "r"], ["y"])],
        LO_HI,
    ),
}


@pytest.mark.parametrize("name", RELU6)
def test_each_form_of_relu6_becomes_one_clip(name: str) -> None:
    opset, nodes, weights = RELU6[name]
    mod = canonicalize(imported(nodes, (1, 7), opset, weights))
    assert operators(mod["main"]) == ["clip"]
    assert bounds(_only_call(mod)) == (0.0, 6.0)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([helper.make_node("Clip", ["x"], ["y"], min=0.0)], "nn.relu"),
        ([helper.make_node("Clip", ["x"], ["y"], max=6.0)], "clip"),
    ],
)
def test_clips_with_one_bound(nodes: list[object], expected: str) -> None:
    assert operators(canonicalize(imported(nodes, (1, 7), 6))["main"]) == [expected]


def _only_call(mod: tvm.IRModule) -> tvm.ir.Call:
    (call,) = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, tvm.ir.Call)]
    return call
