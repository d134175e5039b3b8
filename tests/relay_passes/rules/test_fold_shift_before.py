# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.rules.fold_shift_before import RULE
from tests.relay_passes.graphs import Net, operators, tensor
from tests.relay_passes.rules.anchor_cases import (
    ANCHORS,
    BATCHED,
    CONVOLUTIONS,
    PRODUCTS,
    AnchorCase,
)
from tests.relay_passes.rules.rewrites import graph, names, near_miss, rejection, relative_error, rewritten

UNPADDED = {"padding": 0}


def _module(case: AnchorCase, shift: tuple[int, ...], **attrs: Any) -> tvm.IRModule:
    """The anchor on data with a shift of this shape, away from 0 so that a wrong border would show."""

    def build(net: Net, x: Expr) -> Expr:
        return case.emit(net, net.emit("shift", op.add(x, net.const(*shift, low=2, high=3))), **attrs)

    return graph(build, case.x)


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *PRODUCTS])
def test_a_shift_of_channels_becomes_a_bias(name: str) -> None:
    case = ANCHORS[name]
    mod = _module(case, case.inputs, **(UNPADDED if name in CONVOLUTIONS else {}))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == [case.operator, "add"]
    assert names(after) == [("shift", "anchor")] * 2
    assert relative_error(mod, after) <= case.tolerance


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_borders_are_padded_with_what_the_shift_makes_zero(name: str) -> None:
    case = CONVOLUTIONS[name]
    mod = _module(case, ())
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.pad", case.operator, "add"]
    assert relative_error(mod, after) <= case.tolerance


def test_one_number_may_stand_there_once_a_channel() -> None:
    case = CONVOLUTIONS["conv2d"]

    def build(net: Net, x: Expr) -> Expr:
        shift = relax.const(np.full((1, 6, 1, 1), -0.5, "float32"))
        return case.emit(net, net.emit("shift", op.add(shift, x)))

    mod = graph(build, case.x)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.pad", "nn.conv2d", "add"]
    assert relative_error(mod, after) <= case.tolerance


REJECTIONS: dict[str, tuple[AnchorCase, tuple[int, ...]]] = {
    "padding would need one value a channel (expected 0, found [1, 0, 2, 1])"
    "; 480 elements would be added to the result for 378 of the data": (ANCHORS["conv2d"], (6, 1, 1)),
    "a transposed convolution sums fewer weights at its borders": (ANCHORS["conv2d_transpose"], (6, 1, 1)),
    "weight has more than two axes (expected 2, found 3)": (BATCHED, (6,)),
    "shift is not one number an input channel (expected 6, found [7, 1])": (PRODUCTS["matmul"], (7, 1)),
    "shift enlarges the tensor (expected [7, 1], found [7, 6])": (
        AnchorCase("matmul", (7, 1), (6, 8), (6,), (8,)),
        (6,),
    ),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_near_misses_say_why(reason: str) -> None:
    found = rejection(_module(*REJECTIONS[reason]), RULE)
    assert str(found).partition(": ")[2] == reason
    assert found.nodes == ("shift", "anchor")


def test_data_that_something_computes_may_lose_a_shift_without_padding() -> None:
    def build(net: Net, x: Expr) -> Expr:
        y = net.emit("shift", op.add(net.emit("relu", op.nn.relu(x)), net.const(6)))
        return PRODUCTS["matmul"].emit(net, y)

    mod = graph(build, PRODUCTS["matmul"].x)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.relu", "matmul", "add"]
    assert relative_error(mod, after) <= PRODUCTS["matmul"].tolerance


def test_a_pad_in_place_of_an_epilogue_is_no_gain() -> None:
    case = CONVOLUTIONS["conv1d"]

    def build(net: Net, x: Expr) -> Expr:
        return case.emit(net, net.emit("shift", op.add(net.emit("relu", op.nn.relu(x)), net.const())))

    found = rejection(graph(build, case.x), RULE)
    assert (found.reason, found.actual) == ("a pad of computed data costs more than a shift", "[1, 1]")


def test_the_bias_of_another_anchor_stays_there() -> None:
    def build(net: Net, x: Expr) -> Expr:
        y = net.emit("bias", op.add(net.emit("first", op.matmul(x, net.const(6, 6))), net.const(6)))
        return PRODUCTS["matmul"].emit(net, y)

    found = rejection(graph(build, PRODUCTS["matmul"].x), RULE)
    assert found.reason == "the shift is the bias of what computes the data"
    assert found.nodes == ("bias", "anchor")


def test_weights_of_run_time_are_kept() -> None:
    def build(net: Net, x: Expr, w: Expr) -> Expr:
        return net.emit("anchor", op.matmul(net.emit("shift", op.add(x, net.const(6))), w))

    assert (
        rejection(graph(build, tensor("x", 7, 6), tensor("w", 6, 8)), RULE).reason
        == "weight is not a constant"
    )


def test_a_shift_of_run_time_is_kept() -> None:
    def build(net: Net, x: Expr, t: Expr) -> Expr:
        return net.emit("anchor", op.matmul(net.emit("shift", op.add(x, t)), net.const(6, 8)))

    found = near_miss(graph(build, tensor("x", 7, 6), tensor("t", 6)), RULE)
    assert "constant for shift, found input" in found
