# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.rules.fold_affine_into_norm import RULE
from tests.relay_passes.graphs import Net, operators, tensor
from tests.relay_passes.rules.rewrites import (
    assert_equal,
    graph,
    names,
    rejection,
    relative_error,
    rewritten,
)

X = tensor("x", 2, 7, 9)
# Two roundings of terms of order 1, where both ways of computing round.
TOLERANCE = 4 * float(np.finfo(np.float32).eps)

# What is done to the norm y of the input x.
Finish = Callable[[Net, Expr, Expr], Expr]


def _layer_norm(finish: Finish, gamma: Expr | None = None, *shape: int) -> tvm.IRModule:
    """A layer norm over as many of the last axes as `shape` has, by default over the last one."""
    shape = shape or (9,)
    axes = list(range(-len(shape), 0))

    def build(net: Net, x: Expr) -> Expr:
        scale = net.const(*shape) if gamma is None else gamma
        return finish(net, x, net.emit("norm", op.nn.layer_norm(x, scale, net.const(*shape), axes=axes)))

    return graph(build, X)


def _times(*shape: int) -> Finish:
    return lambda net, x, y: net.emit("affine", op.multiply(y, net.const(*shape)))


def _plus(*shape: int) -> Finish:
    return lambda net, x, y: net.emit("affine", op.add(net.const(*shape), y))


@pytest.mark.parametrize("finish", [_times(9), _times(), _times(1, 1, 9), _plus(9), _plus(1), _plus(1, 1, 1)])
def test_a_layer_norm_takes_in_scale_and_shift(finish: Finish) -> None:
    mod = _layer_norm(finish)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.layer_norm"]
    assert names(after) == [("norm", "affine")]
    assert relative_error(mod, after) <= TOLERANCE


@pytest.mark.parametrize("finish", [_times(7, 9), _times(7, 1), _times(9), _plus(7, 9), _plus(1, 7, 1)])
def test_norms_of_two_axes_take_in_what_broadcasts_to_both(finish: Finish) -> None:
    mod = _layer_norm(finish, None, 7, 9)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.layer_norm"]
    assert relative_error(mod, after) <= TOLERANCE


def test_it_is_exact_for_a_norm_without_a_scale_of_its_own() -> None:
    def build(net: Net, x: Expr) -> Expr:
        one, zero = (relax.const(np.full(9, value, "float32")) for value in (1, 0))
        y = net.emit("norm", op.nn.layer_norm(x, one, zero, axes=[-1]))
        return net.emit("shift", op.add(net.emit("scale", op.multiply(y, net.const(9))), net.const(9)))

    mod = graph(build, X)
    after = rewritten(mod, RULE, times=2)
    assert operators(after["main"]) == ["nn.layer_norm"]
    assert_equal(mod, after)


def test_an_rms_norm_takes_in_a_scale() -> None:
    def build(net: Net, x: Expr) -> Expr:
        y = net.emit("norm", op.nn.rms_norm(x, net.const(9), axes=[-1]))
        return net.emit("affine", op.multiply(y, net.const(9)))

    mod = graph(build, X)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["nn.rms_norm"]
    assert relative_error(mod, after) <= TOLERANCE


def test_an_rms_norm_has_no_place_for_a_shift() -> None:
    def build(net: Net, x: Expr) -> Expr:
        y = net.emit("norm", op.nn.rms_norm(x, net.const(9), axes=[-1]))
        return net.emit("affine", op.add(y, net.const(9)))

    assert rejection(graph(build, X), RULE).reason == "the norm has no shift of its own"


@pytest.mark.parametrize(
    ("finish", "part", "actual"),
    [
        (_times(7, 1), "factor", [7, 1]),
        (_plus(2, 1, 1), "shift", [2, 1, 1]),
        (_times(1, 1, 1, 9), "factor", [1, 1, 1, 9]),
    ],
    ids=["a number a row", "a number a batch", "more axes"],
)
def test_near_misses_say_why(finish: Finish, part: str, actual: list[int]) -> None:
    found = rejection(_layer_norm(finish), RULE)
    assert found.reason == f"{part} is not one number an element of the normalised axes"
    assert (found.limit, found.actual) == ("[9]", str(actual))


def test_a_norm_that_others_need_is_kept() -> None:
    mod = _layer_norm(lambda net, x, y: net.emit("sum", op.add(_times(9)(net, x, y), y)))
    assert rejection(mod, RULE).reason == "norm is also needed by sum"
