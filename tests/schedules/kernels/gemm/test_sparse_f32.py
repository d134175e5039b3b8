# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import arm_ext
from schedules.composites.workload import Workload
from schedules.cores import CORES, Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import LANES
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import sparse_f32
from schedules.kernels.gemm.sparse_f32 import VECTORS, Params
from schedules.select import Choice, select
from tests.schedules.float_cases import Case, conv2d
from tests.schedules.programs import BASELINE, assembly, first_of, linear, loops

N2, A55 = CORES["neoverse-n2"], CORES["cortex-a55"]


def check(workload: Workload, share: float = 0.8, params: Params | None = None) -> None:
    case = Case(workload, share)
    assert isinstance(sparse_f32.matches(case.workload, N2), KernelMatch)
    case.check(case.on_host(sparse_f32, params or Params()))


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *[(1, 1, 1), (7, 8, 67), (8, 7, 31), (31, 9, 1), (32, 16, 3), (69, 35, 8)],
    ],
)
def test_sizes_with_tails(m: int, n: int, k: int):
    check(linear(m, n, k, ("bias",)))


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_shares(share: float):
    check(linear(40, 24, 64, ("bias", "relu")), share)


@pytest.mark.parametrize(
    "steps",
    [("clip",), ("bias", "residual", "relu"), ("bias", "prelu")],
    ids=str,
)
def test_epilogue(steps: Sequence[str]):
    check(conv2d((1, 6, 7, 18), 11, (1, 1), steps) if "residual" in steps else linear(37, 23, 19, steps))


def test_images_and_threads():
    check(conv2d((3, 5, 9, 12), 9, (1, 1), ("bias",)), params=Params(parallel=True))


@pytest.mark.parametrize(
    ("workload", "core", "reason"),
    [
        (linear(8, 8, 8), N2, "too few weights are 0"),
        (replace(conv2d((1, 8, 8, 16), 8, (3, 3)), nonzeros=9), N2, "it is no product of rows side by side"),
        (replace(conv2d((1, 8, 8, 16), 8, (1, 1), strides=(2, 2)), nonzeros=9), N2, "its rows are strided"),
        (
            replace(linear(8, 8, 8), nonzeros=9),
            A55,
            "each product waits for a load on a core with one vector pipe",
        ),
    ],
)
def test_what_it_does_not_take(workload: Workload, core: Core, reason: str):
    answer = sparse_f32.matches(workload, core)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == reason


@pytest.mark.parametrize(
    ("rows", "share", "kernel"), [(196, 0.7, "sparse_f32"), (20, 0.9, "sparse_f32"), (1, 0.9, "gemm_f32")]
)
def test_estimates_choose(rows: int, share: float, kernel: str):
    """With a single row, three of four lanes are unused, and the dense kernel is chosen."""
    workload = linear(rows, 128, 128, ("bias",))
    choice = select(replace(workload, nonzeros=round((1 - share) * 128 * 128)), N2)
    assert isinstance(choice, Choice)
    assert choice.kernel == kernel


@pytest.mark.parametrize("core", first_of(["neoverse-n2", "neoverse-n1", "cortex-a76"]))
def test_sums_stay_in_registers(core: str):
    """The loop over a column's weights has 32 products and their loads, and no stack accesses."""
    workload = Case(linear(64, 16, 128, ("bias",)), 0.8).workload
    text = assembly(sparse_f32.build(workload, Params()), {**BASELINE, "mcpu": core})
    found = [loop for loop in loops(text) if sum("fmla" in line for line in loop) == VECTORS * LANES]
    assert found
    assert not any("[sp" in line for loop in found for line in loop)


def test_compiled_model_on_a_board(tmp_path: Path):
    """Compiled from ONNX, with the number of nonzeros found by the parser."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(24, 40, 1, 1)).astype("float32")
    weights[rng.random(weights.shape) < 0.85] = 0
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, depth, 9, 7])
        for name, depth in (("x", 40), ("y", 24))
    )
    graph = helper.make_graph([node], "pruned", [x], [y], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = arm_ext.compile(model, "neoverse-n1", tmp_path / "p")
    assert [call.kernel for call in result.report.calls if call.macs] == ["sparse_f32"]
    assert arm_ext.run(result, check=True).checks
