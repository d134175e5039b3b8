# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.tirx import Var

from relay_passes.rewriter.engine import explain
from relay_passes.rules.fold_scale import RULE
from tests.relay_passes.graphs import Net, operators, tensor
from tests.relay_passes.rules.anchor_cases import ANCHORS, AnchorCase
from tests.relay_passes.rules.rewrites import graph, names, rejection, relative_error, rewritten

CONV = ANCHORS["conv2d"]

# What follows the anchor y on the input x.
Finish = Callable[[Net, Expr, Expr], Expr]


def _module(finish: Finish, case: AnchorCase = CONV) -> tvm.IRModule:
    return graph(lambda net, x: finish(net, x, case.emit(net, x)), case.x)


def _biased(net: Net, y: Expr, bias: Expr, scale: Expr) -> Expr:
    return net.emit("scale", op.multiply(net.emit("bias", op.add(y, bias)), scale))


@pytest.mark.parametrize("name", ANCHORS)
def test_a_scale_of_channels_goes_into_weights_and_bias(name: str) -> None:
    case = ANCHORS[name]
    mod = _module(
        lambda net, x, y: _biased(net, y, net.const(*case.outputs), net.const(*case.outputs, low=0.1)), case
    )
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == [case.operator, "add"]
    assert names(after) == [("anchor", "bias", "scale")] * 2
    assert relative_error(mod, after) <= case.tolerance


FORMS: dict[str, Finish] = {
    "one number": lambda net, x, y: op.multiply(y, relax.const(np.float32(0.3))),
    "on the left": lambda net, x, y: op.multiply(net.const(1, 8, 1, 1), y),
    "a division": lambda net, x, y: op.divide(y, net.const(8, 1, 1, low=0.1)),
    "zeros": lambda net, x, y: op.multiply(y, relax.const(np.eye(8, 1, -3, "float32").reshape(8, 1, 1))),
}


@pytest.mark.parametrize("form", FORMS)
def test_without_a_bias_none_is_added(form: str) -> None:
    mod = _module(lambda net, x, y: net.emit("scale", FORMS[form](net, x, y)))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.conv2d"]
    assert relative_error(mod, after) <= CONV.tolerance


REJECTIONS: dict[str, Finish] = {
    "scale is not one number an output channel (expected 8, found [8])": lambda net, x, y: net.emit(
        "scale", op.multiply(y, net.const(8))
    ),
    "scale is not one number an output channel (expected 8, found [1, 1, 1, 1, 1])": lambda net, x, y: (
        net.emit("scale", op.multiply(y, net.const(1, 1, 1, 1, 1)))
    ),
    "bias is not one number an output channel (expected 8, found [8])": lambda net, x, y: _biased(
        net, y, net.const(8), net.const(8, 1, 1)
    ),
    "scale is not a constant": lambda net, x, y: net.emit(
        "scale", op.multiply(y, net.emit("gate", op.mean(x, keepdims=True)))
    ),
    "bias is not a constant": lambda net, x, y: _biased(
        net, y, net.emit("mean", op.mean(x, keepdims=True)), net.const(8, 1, 1)
    ),
    "scale is not finite": lambda net, x, y: net.emit("scale", op.divide(y, relax.const(np.float32(0)))),
    "anchor is also needed by sum; 576 elements would be computed twice": lambda net, x, y: net.emit(
        "sum", op.add(net.emit("scale", op.multiply(y, net.const(8, 1, 1))), y)
    ),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_near_misses_say_why(reason: str) -> None:
    # Eight columns as there are channels: sizes alone do not tell the axes apart.
    case = AnchorCase("nn.conv2d", (1, 6, 9, 8), (8, 6, 1, 1), (6, 1, 1), (8, 1, 1))
    found = rejection(_module(REJECTIONS[reason], case), RULE)
    assert str(found).partition(": ")[2] == reason
    assert {"anchor", "scale"} <= set(found.nodes)


def test_what_a_scaled_anchor_divides_is_kept() -> None:
    mod = _module(lambda net, x, y: net.emit("scale", op.divide(net.const(8, 1, 1), y)))
    explanation = explain(mod, RULE)
    assert (explanation.applied, explanation.rejected) == ((), ())


@pytest.mark.parametrize(
    ("x", "weight", "out_dtype", "reason"),
    [
        (
            tensor("x", 7, 6),
            relax.Var("w", relax.TensorType([6, 8], "float32")),
            None,
            "weight is not a constant",
        ),
        (
            tensor("x", 7, 6, dtype="int8"),
            np.ones((6, 8), "int8"),
            "int32",
            "weight is no floating-point tensor",
        ),
        (tensor("x", 7, 6), np.ones(6, "float32"), None, "weight has no axis of output channels"),
        (
            relax.Var("x", relax.TensorType([Var("n", "int64"), 6], "float32")),
            np.ones((6, 8), "float32"),
            None,
            "shape is not static",
        ),
    ],
    ids=["at run time", "integers", "a vector", "symbolic"],
)
def test_weights_that_cannot_be_scaled_say_why(
    x: relax.Var, weight: np.ndarray | relax.Var, out_dtype: str | None, reason: str
) -> None:
    dtype = out_dtype or "float32"

    def build(net: Net, data: Expr, *inputs: Expr) -> Expr:
        y = op.matmul(data, inputs[0] if inputs else relax.const(weight), out_dtype=out_dtype)
        return net.emit("scale", op.multiply(net.emit("anchor", y), relax.const(np.ones((), dtype))))

    inputs = [x, weight] if isinstance(weight, relax.Var) else [x]
    assert rejection(graph(build, *inputs), RULE).reason == reason
