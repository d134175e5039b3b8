# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.rules.fold_scale_before import RULE
from tests.relay_passes.graphs import Net, operators, tensor
from tests.relay_passes.rules.anchor_cases import ANCHORS, AnchorCase
from tests.relay_passes.rules.rewrites import (
    assert_equal,
    graph,
    names,
    near_miss,
    rejection,
    relative_error,
    rewritten,
)

CONV = ANCHORS["conv2d"]

# What stands between the input x and the anchor.
Begin = Callable[[Net, Expr], Expr]


def _module(begin: Begin, case: AnchorCase = CONV) -> tvm.IRModule:
    return graph(lambda net, x: case.emit(net, begin(net, x)), case.x)


def _normalised(net: Net, x: Expr, scale: Expr, shift: Expr) -> Expr:
    return net.emit("shift", op.add(net.emit("scale", op.multiply(x, scale)), shift))


@pytest.mark.parametrize("name", ANCHORS)
def test_a_scale_of_channels_goes_into_the_weights(name: str) -> None:
    case = ANCHORS[name]
    mod = _module(lambda net, x: net.emit("scale", op.multiply(x, net.const(*case.inputs))), case)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == [case.operator]
    assert names(after) == [("scale", "anchor")]
    assert relative_error(mod, after) <= case.tolerance


@pytest.mark.parametrize("name", ["conv2d", "conv2d, NHWC, HWIO", "conv2d_transpose", "matmul"])
def test_a_shift_in_between_stays_before_the_padding(name: str) -> None:
    case = ANCHORS[name]
    mod = _module(
        lambda net, x: _normalised(
            net, x, net.const(*case.inputs, low=0.5), net.const(*case.inputs, low=2, high=3)
        ),
        case,
    )
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["add", case.operator]
    assert relative_error(mod, after) <= case.tolerance


def test_a_shift_of_any_shape_stays() -> None:
    mod = _module(lambda net, x: _normalised(net, x, net.const(6, 1, 1, low=0.5), net.const(1, 6, 9, 7)))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["add", "nn.conv2d"]
    assert relative_error(mod, after) <= CONV.tolerance


FORMS: dict[str, Callable[[Expr], Expr]] = {
    "one number": lambda x: op.multiply(x, relax.const(np.float32(4))),
    "on the left": lambda x: op.multiply(relax.const(np.float32(4)), x),
    "a division": lambda x: op.divide(x, relax.const(np.full((1, 6, 1, 1), 4, "float32"))),
    "zero": lambda x: op.multiply(x, relax.const(np.float32(0))),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_power_of_two_is_exact(form: str) -> None:
    mod = _module(lambda net, x: net.emit("scale", FORMS[form](x)))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.conv2d"]
    assert_equal(mod, after)


def _constant(value: float) -> Expr:
    return relax.const(np.float32(value))


REJECTIONS: dict[str, Begin] = {
    "scale is not one number an input channel (expected 6, found [6])": lambda net, x: net.emit(
        "scale", op.multiply(x, net.const(6))
    ),
    "scale is not finite": lambda net, x: net.emit("scale", op.divide(x, _constant(0))),
    "shift divided by scale is not finite": lambda net, x: _normalised(net, x, _constant(0), _constant(1)),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_near_misses_say_why(reason: str) -> None:
    # Six columns as there are channels: sizes alone do not tell the axes apart.
    case = AnchorCase("nn.conv2d", (1, 6, 9, 6), (8, 6, 1, 1), (6, 1, 1), (8, 1, 1))
    found = rejection(_module(REJECTIONS[reason], case), RULE)
    assert str(found).partition(": ")[2] == reason
    assert {"anchor", "scale"} <= set(found.nodes)


@pytest.mark.parametrize("part", ["scale", "shift"])
def test_what_enlarges_the_data_is_kept(part: str) -> None:
    case = AnchorCase("nn.conv2d", (1, 1, 9, 7), (8, 6, 1, 1), (6, 1, 1), (8, 1, 1))
    one, six = (1, 1, 1), (6, 1, 1)
    mod = graph(
        lambda net, x: net.emit(
            "anchor",
            case.call(
                _normalised(net, x, net.const(*(six if part == "scale" else one)), net.const(*six)),
                net.const(*case.weight),
            ),
        ),
        case.x,
    )
    found = rejection(mod, RULE)
    assert (found.reason, found.limit) == ("scale or shift enlarges the tensor", "[1, 1, 9, 7]")


def test_a_scaled_value_that_others_need_is_kept() -> None:
    def build(net: Net, x: Expr) -> Expr:
        y = net.emit("scale", op.multiply(x, net.const(6, 1, 1)))
        return net.emit("sum", op.add(net.emit("anchor", op.nn.conv2d(y, net.const(6, 6, 1, 1))), y))

    assert rejection(graph(build, CONV.x), RULE).reason == "scale is also needed by sum"


def test_weights_of_run_time_are_kept() -> None:
    def build(net: Net, x: Expr, w: Expr) -> Expr:
        return net.emit("anchor", op.matmul(net.emit("scale", op.multiply(x, net.const(6))), w))

    assert (
        rejection(graph(build, tensor("x", 7, 6), tensor("w", 6, 8)), RULE).reason
        == "weight is not a constant"
    )


def test_a_scale_of_run_time_is_kept() -> None:
    def build(net: Net, x: Expr, s: Expr) -> Expr:
        return net.emit("anchor", op.matmul(net.emit("scale", op.multiply(x, s)), net.const(6, 8)))

    found = near_miss(graph(build, tensor("x", 7, 6), tensor("s", 6)), RULE)
    assert "constant for scale, found input" in found
