# SPDX-License-Identifier: Apache-2.0
"""Fifty of onnx's node tests on a board: of each of fifty operators the first that the host computes."""

from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx_backend
import pytest

from arm_ext.board import Board
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, build, last, run_phases
from arm_ext.target.profiles import resolve
from arm_ext.target.toolchain import LibraryLinker

OPERATORS = """
Abs Add And ArgMax Attention AveragePool BatchNormalization BitShift Cast Ceil Clip Concat Conv ConvTranspose CumSum
DFT DepthToSpace Div Einsum Equal Erf Exp Expand Flatten GRU Gather GatherND Gelu Gemm GlobalAveragePool
GridSample GroupNormalization HardSwish InstanceNormalization LSTM LayerNormalization LogSoftmax MatMul MaxPool Mean
NonMaxSuppression Pad Pow QLinearConv RMSNormalization ReduceMean Resize ScatterND Softmax TopK
"""


@pytest.mark.long
@pytest.mark.parametrize("operator", OPERATORS.split())
def test_case_of(tmp_path: Path, board: Board, operator: str):
    def on_board(model: ImportedModel, inputs: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        profile = resolve("arm")
        planned = last(run_phases(PhaseResult(model.mod), PhaseOptions(profile))).mod
        so = tmp_path / "model.so"
        build(planned, profile).export_library(str(so), fcompile=LibraryLinker(profile.triple, None))
        return board.load(so).run(inputs)

    names = [n for n, case in onnx_backend.cases().items() if onnx_backend.operator_of(case) == operator]
    passing = next(name for name in names if onnx_backend.run_case(name).stage == "passed")
    outcome = onnx_backend.run_case(passing, on_board)
    assert outcome.stage == "passed", outcome
