# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm import relax
from tvm.ir import Expr

from relay_passes.rewriter.engine import explain
from relay_passes.rules.recognize_silu import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, imported, refusal

FORMS: dict[str, Callable[[Ops, Expr], Expr]] = {
    "x first": lambda ops, x: ops.multiply(x, ops.sigmoid(x)),
    "sigmoid first": lambda ops, x: ops.multiply(ops.sigmoid(x), x),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    check_rewrite(form(FORMS[name], (2, 31)), RULE, ["nn.silu"], tolerance=0)


def test_x_that_is_a_sigmoid_itself() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        inner = ops.sigmoid(x)
        return ops.multiply(ops.sigmoid(inner), inner)

    check_rewrite(form(write, (7,)), RULE, ["sigmoid", "nn.silu"], tolerance=0)


def test_from_onnx() -> None:
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    check_rewrite(imported(nodes, (1, 7), 13), RULE, ["nn.silu"], tolerance=0)


def test_a_sigmoid_that_something_else_needs_is_left() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        gate = ops.sigmoid(x)
        return ops.add(ops.multiply(x, gate), gate)

    assert refusal(form(write, (7,)), RULE) == "sigmoid is also needed by add"


def test_a_gate_for_another_value_is_no_silu() -> None:
    mod = form(lambda ops, x, y: ops.multiply(x, ops.sigmoid(y)), (7,), (7,))
    assert explain(mod, RULE).applied == ()


def test_a_sigmoid_quantised_by_itself_is_left() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        scale, zero = relax.const(np.float32(1 / 256)), relax.const(np.int8(-128))
        stored = ops.quantize(ops.sigmoid(x), scale, zero, axis=0, out_dtype="int8")
        return ops.multiply(x, ops.dequantize(stored, scale, zero, axis=0))

    assert explain(form(write, (7,)), RULE).applied == ()
