# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.ir import Expr

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.rules.recognize_relu import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import operators

INF = float("inf")


@pytest.mark.parametrize("shape", [(2, 31), (1, 3, 7, 9), ()])
def test_values_are_kept(shape: tuple[int, ...]) -> None:
    check_rewrite(form(lambda ops, x: ops.clip(x, 0.0, INF), shape), RULE, ["nn.relu"], tolerance=0)


def test_a_clip_that_something_else_needs_stays_one_value() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        y = ops.clip(x, 0.0, INF)
        return ops.multiply(ops.exp(y), y)

    # Only values inside of a match must have one consumer, not its result.
    check_rewrite(form(write, (7,)), RULE, ["nn.relu", "exp", "multiply"], tolerance=0)


# What exporters write for a lower bound of 0 alone.
ZERO = {
    "Clip without an upper bound": helper.make_node("Clip", ["x", "zero"], ["y"]),
    "Max with 0": helper.make_node("Max", ["x", "zero"], ["y"]),
    "Max with 0 first": helper.make_node("Max", ["zero", "x"], ["y"]),
}


@pytest.mark.parametrize("name", ZERO)
def test_from_onnx(name: str) -> None:
    mod = canonicalize(imported([ZERO[name]], (1, 7), 13, {"zero": np.float32(0)}))
    assert operators(mod["main"]) == ["nn.relu"]


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.0, INF), (1.0, INF)])
def test_other_bounds_are_no_relu(low: float, high: float) -> None:
    reason = f"bounds are not those of relu (expected (0.0, inf), found ({low}, {high}))"
    assert refusal(form(lambda ops, x: ops.clip(x, low, high), (7,)), RULE) == reason


def test_bounds_of_run_time_are_left() -> None:
    limit = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((limit,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.clip(x, 0, limit))
        bb.emit_func_output(out)
    assert refusal(bb.finalize(), RULE) == "a bound is computed at run time"
