# SPDX-License-Identifier: Apache-2.0
"""Instructions of a run outside of its kernels, counted exactly by an emulator."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import arm_ext
from arm_ext.api.bench import bound_inputs
from arm_ext.board import open_board
from arm_ext.common.trace import TraceSection

# Instructions per kernel call. Measured: 37 with three arguments.
CALL = 50
# Instructions of a run without its calls. Measured: 2,590, of which 1,100 are before the first of `main`.
RUN = 2_700
# Instructions per state. Measured: 9.
STATE = 20
FEW, MANY = 3, 9


def model(nodes: list[onnx.NodeProto], weights: int, states: int = 0) -> onnx.ModelProto:
    def ends(*names: str) -> list[onnx.ValueInfoProto]:
        return [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 16)) for name in names]

    rng = np.random.default_rng(0)
    arrays = [onnx.numpy_helper.from_array(rng.random((16, 16), np.float32), f"w{k}") for k in range(weights)]
    inputs = ends("y0", *(f"s{k}" for k in range(states)))
    outputs = ends(nodes[-1].output[0], *(f"n{k}" for k in range(states)))
    graph = onnx.helper.make_graph(nodes, "chain", inputs, outputs, arrays)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def sections(made: onnx.ModelProto, folder: Path, states: int = 0) -> list[TraceSection]:
    """Return the sections of an inference, or of a step."""
    pairs = {f"s{k}": f"n{k}" for k in range(states)}
    package = arm_ext.compile(made, output=folder / "p", state=pairs or None).package
    with open_board("virtual", counting=True, calls=True) as board:
        trace = board.load(package.so).count_calls(bound_inputs(package), steps=bool(states))
    return list(trace.sections)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[TraceSection]]:
    """Number of kernel calls → the sections of a run."""
    found = {}
    for calls in (FEW, MANY):
        nodes = [onnx.helper.make_node("MatMul", [f"y{k}", f"w{k}"], [f"y{k + 1}"]) for k in range(calls)]
        found[calls] = sections(model(nodes, calls), tmp_path_factory.mktemp("overhead"))
        assert sum(bool(section.symbol) for section in found[calls]) == calls
    return found


def around(sections: list[TraceSection]) -> int:
    """Return the number of instructions outside of kernels."""
    return sum(block.instructions for each in sections if not each.symbol for block in each.blocks)


def test_a_kernel_call_takes_few_instructions_beside_the_kernel(runs: dict[int, list[TraceSection]]):
    assert around(runs[MANY]) - around(runs[FEW]) <= CALL * (MANY - FEW)


def test_a_run_allocates_its_outputs_alone(runs: dict[int, list[TraceSection]]):
    each = (around(runs[MANY]) - around(runs[FEW])) / (MANY - FEW)
    assert around(runs[FEW]) - FEW * each <= RUN


def test_nothing_of_the_runtime_runs_between_two_kernels(runs: dict[int, list[TraceSection]]):
    kernels = [index for index, section in enumerate(runs[MANY]) if section.symbol]
    between = runs[MANY][kernels[0] : kernels[-2]]  # the output of the last call is allocated before it
    assert {block.image for section in between for block in section.blocks} == {"model.so"}


def test_a_state_takes_few_instructions_beside_its_kernels(tmp_path: Path):
    found = {}
    for states in (1, 3):
        nodes = [onnx.helper.make_node("Add", [f"y{k}", f"s{k}"], [f"n{k}"]) for k in range(states)]
        nodes += [onnx.helper.make_node("MatMul", [f"n{k}", "w0"], [f"y{k + 1}"]) for k in range(states)]
        folder = tmp_path / str(states)
        folder.mkdir()
        found[states] = sections(model(nodes, 1, states), folder, states)
    calls = {states: sum(bool(each.symbol) for each in found[states]) for states in found}
    more = around(found[3]) - around(found[1])
    assert more <= CALL * (calls[3] - calls[1]) + STATE * 2
