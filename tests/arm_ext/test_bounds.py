# SPDX-License-Identifier: Apache-2.0
"""Indices that are out of bounds at run time, by front end: each as its own runtime does it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import torch
import tvm
from jax import export
from onnx import TensorProto, helper
from tvm import relax

import arm_ext
from arm_ext.common.errors import ModelError
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import module_runner, planned_runner
from arm_ext.target.profiles import baseline_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

_X = np.arange(15, dtype="float32").reshape(5, 3)
_WRONG = [5, -6, 2**31 - 1, -(2**31)]


class _Program(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return self.function(x, i)


_TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "index": lambda x, i: x[i],
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "gather": lambda x, i: torch.gather(x, 0, i.reshape(-1, 1)),
    "two indices": lambda x, i: x[i, i % 3],
    "index_put": lambda x, i: x.index_put((i,), torch.ones(3)),
    "scatter_add": lambda x, i: torch.scatter_add(x, 0, i.reshape(-1, 1), x[:2, :1]),
}


@pytest.mark.parametrize("name", _TORCH)
def test_torch_raises(name: str) -> None:
    program = _Program(_TORCH[name])
    exported = torch.export.export(program, (torch.tensor(_X), torch.tensor([0, 1])))
    run = module_runner(import_model(exported).mod)
    right = np.array([4, 0])
    np.testing.assert_array_equal(run([_X, right])[0], program(torch.tensor(_X), torch.tensor(right)))
    for wrong in _WRONG:
        with pytest.raises(IndexError, match="an index is out of bounds for an axis of size 5"):
            run([_X, np.array([0, wrong])])


def _tflite(operator: str, folder: Path) -> Any:
    m = TfliteBuilder()
    x, places = m.take("float32", 5, 3), m.take("int32", 2)
    given = [places, x] if operator == "EMBEDDING_LOOKUP" else [x, places]
    m.op(operator, given, [m.tensor("float32", 2, 3)])
    path = folder / "model.tflite"
    path.write_bytes(m.build())
    return import_model(path)


@pytest.mark.parametrize("operator", ["GATHER", "EMBEDDING_LOOKUP"])
def test_tflite_raises_for_negative_ones_too(operator: str, tmp_path: Path) -> None:
    run = module_runner(_tflite(operator, tmp_path).mod)
    right = np.array([4, 0], "int32")
    np.testing.assert_array_equal(run([_X, right])[0], _X[right])
    for wrong in (-1, *_WRONG):
        with pytest.raises(IndexError, match="out of bounds for an axis of size 5"):
            run([_X, np.array([0, wrong], "int32")])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
def test_stablehlo_clamps_reads_and_leaves_writes_out(dtype: str) -> None:
    def reads(x: jax.Array, i: jax.Array) -> Sequence[jax.Array]:
        return (
            jnp.take(x, i, axis=0, mode="clip"),
            jax.lax.dynamic_slice(x, (i[1], jnp.zeros((), dtype)), (2, 3)),
            jax.lax.dynamic_update_slice(x, x[:2], (i[1], jnp.zeros((), dtype))),
            x.at[i].add(1.0, mode="drop"),
        )

    shapes = jax.ShapeDtypeStruct((5, 3), "float32"), jax.ShapeDtypeStruct((2,), dtype)
    mod = import_model(export.export(jax.jit(reads))(*shapes)).mod
    planned = last(run_phases(PhaseResult(mod), PhaseOptions(baseline_host())))
    assert not [kernel for kernel in planned.kernels if kernel.kernel == "check"]
    run, expect, limits = planned_runner(planned.mod, baseline_host()), jax.jit(reads), np.iinfo(dtype)
    for place in (0, 4, 5, limits.min, limits.max):
        i = np.array([1, place], dtype)
        for actual, expected in zip(run([_X, i]), expect(_X, i), strict=True):
            np.testing.assert_array_equal(actual, expected)


def _gather(*, constant: int | None = None) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3])
    i = helper.make_tensor_value_info("i", TensorProto.INT64, [2])
    held = [] if constant is None else [helper.make_tensor("i", TensorProto.INT64, [2], [0, constant])]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    node = helper.make_node("Gather", ["x", "i"], ["y"], "rows")
    graph = helper.make_graph([node], "gather", [x] if held else [x, i], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_constant_index_out_of_bounds_is_refused_at_compile_time() -> None:
    mod = import_model(_gather(constant=5)).mod
    with pytest.raises(ModelError, match="node 'rows': an index is out of bounds for an axis of size 5"):
        module_runner(mod)([_X])


def test_the_report_says_which_nodes_are_checked(tmp_path: Path) -> None:
    result = arm_ext.compile(_gather(), target="host", output=tmp_path / "a.armpkg")
    (row,) = result.report.nodes
    assert row.reason.endswith("its indices are checked at run time")
    assert row.kernel != "check"
    result = arm_ext.compile(_gather(constant=4), target="host", output=tmp_path / "b.armpkg")
    assert result.report.nodes[0].reason.endswith("its indices are in bounds, whatever the inputs are")
    assert {kernel.kernel for kernel in result.report.kernels}.isdisjoint({"check"})


def test_inputs_for_the_selftest_that_are_out_of_bounds(tmp_path: Path) -> None:
    """Random bytes are no indices of five rows, but zeros are; what a user gives is not replaced."""
    model = _gather()
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.UINT8
    model.graph.input[1].name = "bytes"
    model.graph.node.insert(0, helper.make_node("Cast", ["bytes"], ["i"], "cast", to=TensorProto.INT64))
    made = arm_ext.compile(model, target="host", output=tmp_path / "a.armpkg").package
    assert not made.selftest().inputs[1].any()
    with pytest.raises(ModelError, match="fails with the inputs given: node 'rows'"):
        arm_ext.compile(
            model, target="host", output=tmp_path / "b.armpkg", inputs=[_X, np.array([0, 9], "u1")]
        )


def test_a_step_that_fails_leaves_the_state(tmp_path: Path) -> None:
    values = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("table", TensorProto.FLOAT, [5]),
            ("i", TensorProto.INT64, [1]),
            ("h", TensorProto.FLOAT, [1]),
            ("next", TensorProto.FLOAT, [1]),
            ("y", TensorProto.FLOAT, [1]),
        )
    ]
    nodes = [
        helper.make_node("Add", ["h", "one"], ["next"], "count"),
        helper.make_node("Gather", ["table", "i"], ["row"], "rows"),
        helper.make_node("Add", ["row", "next"], ["y"], "sum"),
    ]
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1])
    graph = helper.make_graph(nodes, "steps", values[:3], values[3:], [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made = arm_ext.compile(model, target="host", output=tmp_path / "a.armpkg", state={"h": "next"})
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(made.package.so)), tvm.cpu())

    def step(place: int) -> float:
        taken = np.zeros(5, "f4"), np.array([place])
        return float(machine["step"](*map(tvm.runtime.tensor, taken)).numpy()[0])

    assert [step(0), step(4)] == [1, 2]
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="node 'rows'"):
            step(wrong)
    assert step(0) == 3


def test_torch_raises_where_one_index_is_put() -> None:
    program = _Program(lambda x, i: x.index_put((i,), torch.ones(3)))
    exported = torch.export.export(program, (torch.tensor(_X), torch.tensor([0])))
    run = module_runner(import_model(exported).mod)
    for right in (4, -5):
        wanted = program(torch.tensor(_X), torch.tensor([right]))
        np.testing.assert_array_equal(run([_X, np.array([right])])[0], wanted)
    for wrong in _WRONG:
        with pytest.raises(IndexError, match="out of bounds for an axis of size 5"):
            run([_X, np.array([wrong])])


def _sequences(operator: str, held: Sequence[int] = ()) -> onnx.ModelProto:
    """A recurrent layer, or a reversal, of 4 steps and 2 sequences, whose lengths are an input or constants."""
    reverses = operator == "ReverseSequence"
    kind = TensorProto.INT64 if reverses else TensorProto.INT32
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2, 3])]
    weights = []
    if held:
        weights.append(helper.make_tensor("n", kind, [2], held))
    else:
        inputs.append(helper.make_tensor_value_info("n", kind, [2]))
    if reverses:
        node = helper.make_node(operator, ["x", "n"], ["y"], "cell", batch_axis=1, time_axis=0)
    else:
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
        for name, columns in (("w", 3), ("r", 2)):
            shape = [1, gates * 2, columns]
            weights.append(helper.make_tensor(name, TensorProto.FLOAT, shape, [0.5] * (gates * 2 * columns)))
        node = helper.make_node(operator, ["x", "w", "r", "", "n"], ["y"], "cell", hidden_size=2)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN", "ReverseSequence"])
def test_lengths_of_sequences_are_checked(operator: str) -> None:
    run = module_runner(import_model(_sequences(operator)).mod)
    x, dtype = np.ones((4, 2, 3), np.float32), "int64" if operator == "ReverseSequence" else "int32"
    run([x, np.array([0, 4], dtype)])
    for wrong in (5, -1, -5, 2**31 - 1, -(2**31)):
        with pytest.raises(IndexError, match="node 'cell': an index is out of bounds for an axis of size 5"):
            run([x, np.array([4, wrong], dtype)])
        with pytest.raises(ModelError, match=rf"{operator} .*cell.*its input 'n' has .*out of bounds"):
            import_model(_sequences(operator, [4, wrong]))


@pytest.mark.parametrize("wrong", [3, -1])
def test_tflite_refuses_constants_of_constants(wrong: int, tmp_path: Path) -> None:
    m = TfliteBuilder()
    row = m.tensor("int32", 2)
    m.op("GATHER", [m.hold(np.arange(3, dtype="int32")), m.hold(np.array([0, wrong], "int32"))], [row])
    m.op("ADD", [row, m.take("int32", 2)], [m.tensor("int32", 2)])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    with pytest.raises(
        ModelError, match=f"GATHER node .* the index {wrong} is out of bounds for an axis of size 3"
    ):
        import_model(path)
