# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N803, N812 - TVMScript's R, and the names that layouts and formulas use
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.script import relax as R

from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rules.fold_batch_norm import RULE
from tests.relay_passes.graphs import Net, inputs_of, operators, run, tensor
from tests.relay_passes.rules.anchor_cases import ANCHORS
from tests.relay_passes.rules.rewrites import graph, relative_error, rewritten

# Weights and norm are of order 1 and a sum has at most 72 terms: float32 folded and not differ by some eps · 72.
TOLERANCE = 72 * np.finfo(np.float32).eps


@dataclass(frozen=True)
class Case:
    """conv2d with 8 output channels and a BatchNorm; the fields are what a test varies."""

    layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    channels: int = 8
    groups: int = 1
    bias: str | None = None
    bias_first: bool = False
    axis: int | None = None
    attrs: tuple[tuple[str, Any], ...] = ()
    weight_input: bool = False
    gamma_input: bool = False
    variance: float = 1.0
    second_consumer: bool = False

    def module(self) -> tvm.IRModule:
        net = Net()
        channel = self.layout.index("C")
        kernel = {"O": 8, "I": self.channels // self.groups, "H": 3, "W": 3}
        shape = [kernel[axis] for axis in self.kernel_layout]
        x = tensor("x", *[{"N": 1, "C": self.channels, "H": 9, "W": 7}[axis] for axis in self.layout])
        w, gamma = tensor("w", *shape), tensor("gamma", 8)
        inputs = [x, *([w] if self.weight_input else []), *([gamma] if self.gamma_input else [])]

        def body() -> Expr:
            y = net.emit(
                "conv",
                op.nn.conv2d(
                    x,
                    w if self.weight_input else net.const(*shape),
                    padding=1,
                    groups=self.groups,
                    data_layout=self.layout,
                    kernel_layout=self.kernel_layout,
                ),
            )
            conv = y
            if self.bias:
                value = self._bias(net, channel)
                y = net.emit("bias", op.add(value, y) if self.bias_first else op.add(y, value))
            norm = op.nn.batch_norm(
                y,
                gamma if self.gamma_input else net.const(8),
                net.const(8),
                net.const(8),
                net.const(8, low=self.variance, high=self.variance + 1),
                axis=channel if self.axis is None else self.axis,
                **{"training": False, **dict(self.attrs)},
            )
            y = net.bb.emit(relax.TupleGetItem(net.emit("bn", norm), 0))
            return (
                net.emit("sum", op.add(y, conv)) if self.second_consumer else net.emit("act", op.nn.relu(y))
            )

        return net.module(inputs, body)

    def _bias(self, net: Net, channel: int) -> Expr:
        shapes = {
            "channel": [8 if axis == channel else 1 for axis in range(4)],
            "short": [8] if channel == 3 else [8, 1, 1],
            "scalar": [],
            "row": [7] if channel == 1 else [7, 1],
        }
        return net.const(*shapes[self.bias])


FOLDS = {
    "plain": Case(),
    "bias": Case(bias="channel"),
    "bias without leading axes": Case(bias="short"),
    "bias on the left": Case(bias="channel", bias_first=True),
    "bias of one number": Case(bias="scalar"),
    "depthwise": Case(groups=8, bias="channel"),
    "groups": Case(groups=2),
    "seven channels": Case(channels=7),
    "NHWC": Case("NHWC", "OHWI", bias="channel"),
    "NHWC, short bias": Case("NHWC", "OHWI", bias="short"),
    "NHWC, HWIO": Case("NHWC", "HWIO"),
    "axis from the end": Case(axis=-3),
    "epsilon": Case(attrs=(("epsilon", 0.5),)),
    "no gamma": Case(attrs=(("scale", False),)),
    "no beta": Case(attrs=(("center", False),)),
}


@pytest.mark.parametrize("name", FOLDS)
def test_folded_values_are_those_of_the_original(name: str) -> None:
    mod = FOLDS[name].module()
    folded, explanation = apply_rule(mod, RULE)
    assert len(explanation.applied) == 1
    assert operators(folded["main"]) == ["nn.conv2d", "add", "nn.relu"]
    inputs = inputs_of(mod)
    expected = run(mod, *inputs)
    error = np.abs(run(folded, *inputs) - expected).max() / np.abs(expected).max()
    assert error <= TOLERANCE


@pytest.mark.parametrize("name", [name for name in ANCHORS if name != "matmul, a vector"])
def test_every_anchor_takes_in_a_norm(name: str) -> None:
    case = ANCHORS[name]

    def build(net: Net, x: Expr) -> Expr:
        y = net.emit("bias", op.add(case.emit(net, x), net.const(*case.outputs)))
        # Channels are the only axis of `outputs` that is not 1, and it is aligned with the result's at the right.
        axis = next(i for i, size in enumerate(case.outputs) if size > 1) - len(case.outputs)
        parameters = (net.const(8), net.const(8), net.const(8), net.const(8, low=0.5, high=1.5))
        norm = op.nn.batch_norm(y, *parameters, axis=axis, training=False)
        return net.bb.emit(relax.TupleGetItem(net.emit("bn", norm), 0))

    mod = graph(build, case.x)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == [case.operator, "add"]
    assert relative_error(mod, after) <= case.tolerance


def test_the_folded_graph() -> None:
    folded, _ = apply_rule(Case(bias="channel").module(), RULE)
    calls = [b.value for b in bindings_of(folded["main"]) if isinstance(b.value, relax.Call)]
    weight, bias = calls[0].args[1], calls[1].args[1]

    @R.function
    def main(
        x: R.Tensor((1, 8, 9, 7), "float32"),
        W: R.Tensor((8, 8, 3, 3), "float32"),
        B: R.Tensor((1, 8, 1, 1), "float32"),
    ) -> R.Tensor((1, 8, 9, 7), "float32"):
        with R.dataflow():
            conv: R.Tensor((1, 8, 9, 7), "float32") = R.nn.conv2d(x, W, padding=1)
            y: R.Tensor((1, 8, 9, 7), "float32") = R.add(conv, B)
            act: R.Tensor((1, 8, 9, 7), "float32") = R.nn.relu(y)
            out: R.Tensor((1, 8, 9, 7), "float32") = act
            R.output(out)
        return out

    expected = tvm.IRModule({"main": main.bind_params({"W": weight.value, "B": bias.value})})
    tvm.ir.assert_structural_equal(folded, expected)


def test_source_names_of_all_three_survive() -> None:
    folded, explanation = apply_rule(Case(bias="channel").module(), RULE)
    assert explanation.applied == (("conv", "bias", "bn"),)
    calls = [b.value for b in bindings_of(folded["main"]) if isinstance(b.value, relax.Call)]
    assert [sources_of(c) for c in calls] == [("conv", "bias", "bn"), ("conv", "bias", "bn"), ("act",)]
    assert unnamed_calls(folded) == []


REJECTIONS = {
    "weight is not a constant": Case(weight_input=True),
    "gamma is not a constant": Case(gamma_input=True),
    "conv is also needed by sum": Case(second_consumer=True),
    "batch_norm is in training mode": Case(attrs=(("training", True),)),
    "variance + epsilon is not positive (expected above 0, found": Case(variance=-1.0),
    "bias is not one number an output channel (expected 8, found [7])": Case(bias="row"),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_near_misses_say_why(reason: str) -> None:
    mod = REJECTIONS[reason].module()
    explanation = explain(mod, RULE)
    assert explanation.applied == ()
    (rejection,) = explanation.rejected
    nodes, _, text = str(rejection).partition(": ")
    assert text.startswith(reason)
    assert {"conv", "bn"} <= set(nodes.split(", "))
    tvm.ir.assert_structural_equal(apply_rule(mod, RULE)[0], mod)


@pytest.mark.parametrize(
    ("outputs", "bias", "normed"),
    [(1, (8, 1, 1), 8), (8, (1, 1, 8, 1, 1), 1)],
    ids=["more channels", "more axes"],
)
def test_a_bias_that_enlarges_the_tensor_is_rejected(
    outputs: int, bias: tuple[int, ...], normed: int
) -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        y = net.emit("conv", op.nn.conv2d(x, net.const(outputs, 8, 1, 1)))
        y = net.emit("bias", op.add(y, net.const(*bias)))
        norm = op.nn.batch_norm(y, *(net.const(normed, low=0.5) for _ in range(4)), axis=1, training=False)
        return net.bb.emit(relax.TupleGetItem(net.emit("bn", norm), 0))

    (rejection,) = explain(net.module([x], body), RULE).rejected
    assert rejection.reason == "bias is not one number an output channel"
    assert (rejection.limit, rejection.actual) == (str(outputs), str(list(bias)))


def test_a_norm_along_another_axis_is_rejected() -> None:
    # Eight columns and eight channels: shapes alone do not tell the axes apart.
    net, x = Net(), tensor("x", 1, 8, 8, 8)

    def body() -> Expr:
        y = net.emit("conv", op.nn.conv2d(x, net.const(8, 8, 1, 1)))
        norm = op.nn.batch_norm(y, *(net.const(8, low=0.5) for _ in range(4)), axis=3, training=False)
        return net.bb.emit(relax.TupleGetItem(net.emit("bn", norm), 0))

    (rejection,) = explain(net.module([x], body), RULE).rejected
    assert (rejection.reason, rejection.limit, rejection.actual) == (
        "batch_norm is not along the channels",
        "1",
        "3",
    )


def test_quantised_weights_are_left_alone() -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        stored = relax.const(np.ones((8, 8, 3, 3), "int8"))
        weight = op.dequantize(stored, relax.const(np.float32(0.5)), relax.const(np.int8(3)), axis=0)
        y = net.emit("conv", op.nn.conv2d(x, net.emit("dq", weight), padding=1))
        norm = op.nn.batch_norm(y, *(net.const(8, low=0.5) for _ in range(4)), axis=1, training=False)
        return net.bb.emit(relax.TupleGetItem(net.emit("bn", norm), 0))

    (rejection,) = explain(net.module([x], body), RULE).rejected
    assert rejection.reason == "weight is not a constant"
