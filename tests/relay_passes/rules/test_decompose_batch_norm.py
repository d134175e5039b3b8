# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.rules.decompose_batch_norm import RULE
from tests.relay_passes.graphs import Net, operators, tensor
from tests.relay_passes.rules.rewrites import graph, names, rejection, relative_error, rewritten

X = tensor("x", 1, 7, 9, 8)
# Five roundings of terms of order 1: the norm's parameters, and data up to 2 in units of a deviation of at least 0.7.
TOLERANCE = 5 * 4 * float(np.finfo(np.float32).eps)


def _norm(axis: int = 1, variance: float = 0.5, gamma: Expr | None = None, **attrs: Any) -> tvm.IRModule:
    def build(net: Net, x: Expr, *inputs: Expr) -> Expr:
        size = int(x.ty.shape[axis])
        scale = inputs[0] if inputs else net.const(size)
        norm = op.nn.batch_norm(
            x,
            scale,
            net.const(size),
            net.const(size),
            net.const(size, low=variance, high=variance + 1),
            axis=axis,
            **{"training": False, **attrs},
        )
        return net.bb.emit(relax.TupleGetItem(net.emit("bn", norm), 0))

    return graph(build, X, *([gamma] if gamma is not None else []))


FORMS: dict[str, Callable[[], tvm.IRModule]] = {
    "channels": _norm,
    "last axis": lambda: _norm(axis=3),
    "axis from the end": lambda: _norm(axis=-2),
    "epsilon": lambda: _norm(epsilon=0.5),
    "no gamma": lambda: _norm(scale=False),
    "no beta": lambda: _norm(center=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_norm_is_a_scale_and_a_shift(form: str) -> None:
    mod = FORMS[form]()
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["multiply", "add"]
    assert names(after) == [("bn",), ("bn",)]
    assert relative_error(mod, after) <= TOLERANCE


REJECTIONS: dict[str, Callable[[], tvm.IRModule]] = {
    "gamma is not a constant": lambda: _norm(gamma=tensor("gamma", 7)),
    "batch_norm is in training mode": lambda: _norm(training=True),
    "variance + epsilon is not positive": lambda: _norm(variance=-1.0),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_near_misses_say_why(reason: str) -> None:
    found = rejection(REJECTIONS[reason](), RULE)
    assert (found.reason, found.nodes) == (reason, ("bn",))
