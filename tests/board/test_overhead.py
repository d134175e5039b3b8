# SPDX-License-Identifier: Apache-2.0
"""What a run costs beside its kernels, in instructions, which an emulator counts exactly."""

import numpy as np
import onnx
import pytest

import arm_ext
from arm_ext.api.bench import bound_inputs
from arm_ext.board import open_board
from arm_ext.common.trace import Section

# Measured: 85 with four arguments.
CALL = 100
FEW, MANY = 3, 9


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Section]]:
    """By the number of kernel calls: the sections of a run."""
    found = {}
    for calls in (FEW, MANY):
        nodes = [onnx.helper.make_node("MatMul", [f"y{k}", f"w{k}"], [f"y{k + 1}"]) for k in range(calls)]
        rng = np.random.default_rng(0)
        weights = [
            onnx.numpy_helper.from_array(rng.random((16, 16), np.float32), f"w{k}") for k in range(calls)
        ]
        ends = [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 16))
            for name in ("y0", f"y{calls}")
        ]
        graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        package = arm_ext.compile(model, output=tmp_path_factory.mktemp("overhead") / "p").package
        with open_board("virtual", counting=True, calls=True) as board:
            trace = board.load(package.so).count_calls(bound_inputs(package))
        assert sum(bool(section.symbol) for section in trace.sections) == calls
        found[calls] = list(trace.sections)
    return found


def around(sections: list[Section]) -> int:
    """Instructions that are no kernel's."""
    return sum(block.instructions for each in sections if not each.symbol for block in each.blocks)


def test_a_kernel_call_takes_few_instructions_beside_the_kernel(runs: dict[int, list[Section]]):
    assert around(runs[MANY]) - around(runs[FEW]) <= CALL * (MANY - FEW)


def test_nothing_of_the_runtime_runs_between_two_kernels(runs: dict[int, list[Section]]):
    kernels = [index for index, section in enumerate(runs[MANY]) if section.symbol]
    between = runs[MANY][kernels[0] : kernels[-2]]  # the last one's output is made before it
    assert {block.image for section in between for block in section.blocks} == {"model.so"}
