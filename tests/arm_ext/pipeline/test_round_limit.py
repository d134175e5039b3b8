# SPDX-License-Identifier: Apache-2.0
"""Loops whose data does not end them within the limit of rounds are refused by name; others run to their end."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.common.errors import ModelError
from arm_ext.frontends.common import limits
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.stablehlo.importer import import_stablehlo
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import host_runner
from tests.arm_ext.frontends.stablehlo.models import text

MOST = 50
SHAPE = (1, 9)


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_ROUNDS", MOST)


def growing(inner: onnx.NodeProto | None = None) -> onnx.ModelProto:
    """Add 1 to the data until its largest element is 1000; a loop that is inside makes each round's result."""
    one, end = (
        numpy_helper.from_array(np.float32(value), name) for name, value in (("one", 1), ("end", 1000))
    )
    nodes = [
        helper.make_node("Add", ["y", "one"], ["sum"], name="add"),
        inner or helper.make_node("Identity", ["sum"], ["next"], name="same"),
        helper.make_node("ReduceMax", ["next"], ["largest"], name="max", keepdims=0),
        helper.make_node("Less", ["largest", "end"], ["again"], name="less"),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, SHAPE),
        ],
        [one, end],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "", "x"], ["z"], name="grow", body=body)],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, SHAPE)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ends_after(rounds: int) -> np.ndarray:
    return np.full(SHAPE, 1000 - rounds, np.float32)


def test_a_selftest_that_does_not_end(tmp_path: Path):
    with pytest.raises(ModelError, match=rf"{MOST} rounds, .*: {MOST} of loop node 'grow'; give .* `inputs`"):
        arm_ext.compile(growing(), target="host", output=tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_inputs_for_which_it_ends(tmp_path: Path):
    package = arm_ext.compile(growing(), target="host", output=tmp_path / "p", inputs=[ends_after(MOST)])
    more = ends_after(3 * MOST)  # a package's own program has no limit
    found = arm_ext.run(package, "local", inputs={"x": more}).outputs["z"]
    np.testing.assert_array_equal(found, np.full(SHAPE, 1000, np.float32))


def test_the_limit_is_of_each_run():
    run = host_runner(import_onnx(growing()))
    for _ in range(3):
        (found,) = run([ends_after(MOST)])
        np.testing.assert_array_equal(found, np.full(SHAPE, 1000, np.float32))
    with pytest.raises(ModelError, match=f"{MOST} of loop node 'grow'"):
        run([ends_after(MOST + 1)])
    np.testing.assert_array_equal(run([ends_after(1)])[0], np.full(SHAPE, 1000, np.float32))


def test_all_loops_inside_each_other_are_counted():
    inner = growing().graph.node[0]
    inner.CopyFrom(helper.make_node("Loop", ["", "", "sum"], ["next"], name="inside", body=_halving()))
    run = host_runner(import_onnx(growing(inner)))
    # In its first round, `grow` has 1001 halved ten times, and in each further one about 2 once, without an end.
    with pytest.raises(ModelError, match="21 of loop node 'grow', 29 of loop node 'inside'"):
        run([ends_after(0)])


def _halving() -> onnx.GraphProto:
    half, end = (
        numpy_helper.from_array(np.float32(value), name) for name, value in (("half", 0.5), ("low", 1))
    )
    nodes = [
        helper.make_node("Mul", ["v", "half"], ["w"], name="halve"),
        helper.make_node("ReduceMax", ["w"], ["most"], name="most", keepdims=0),
        helper.make_node("Greater", ["most", "low"], ["more"], name="greater"),
    ]
    return helper.make_graph(
        nodes,
        "halving",
        [
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, SHAPE),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, SHAPE),
        ],
        [half, end],
    )


class Growing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (y,) = torch.while_loop(lambda y: y.max() < 1000, lambda y: (y + 1,), (x,))
        return y


def _torch() -> ImportedModel:
    return import_torch(torch.export.export(Growing(), (torch.ones(SHAPE),)))


def _stablehlo() -> ImportedModel:
    def grow(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda y: y.max() < 1000, lambda y: y + 1, x)

    return import_stablehlo(text(grow, (np.ones(SHAPE, np.float32),)), "m")


@pytest.mark.parametrize(
    ("load", "node"), [(_torch, "while_loop"), (_stablehlo, "line 3")], ids=["torch", "stablehlo"]
)
def test_loops_of_other_front_ends(load: Callable[[], ImportedModel], node: str):
    run = host_runner(load())
    np.testing.assert_array_equal(run([ends_after(MOST)])[0], np.full(SHAPE, 1000, np.float32))
    with pytest.raises(ModelError, match=rf"{MOST} of loop node '{node}'"):
        run([ends_after(MOST + 1)])
