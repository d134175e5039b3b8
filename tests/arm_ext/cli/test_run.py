# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.api.run import OutputCheck, RunResult
from arm_ext.cli.run import _table
from arm_ext.common.distance import distance

NUMBERS = np.array([[0.5, 0.25]], np.float32)


def _result(source: np.ndarray | None) -> RunResult:
    found = None if source is None else distance(NUMBERS, source)
    check = OutputCheck("y", "float32[1, 2]", distance(NUMBERS, NUMBERS), found, None, 1e-4)
    return RunResult({"y": NUMBERS}, checks=(check,), source_runtime="onnxruntime")


def test_ok_is_said_of_what_the_models_own_runtime_computes_too() -> None:
    assert "ok (bound 0.0001)" in _table(_result(NUMBERS), None)
    alone = _table(_result(None), None)
    assert "ok (" not in alone
    assert "as compiled (bound 0.0001)" in alone
    assert "as compiled  the model's own runtime computed nothing" in alone


def test_another_greatest_value_is_explained() -> None:
    assert "top-1 differs  the greatest value stands elsewhere" in _table(_result(NUMBERS[:, ::-1]), None)
    assert "top-1 differs" not in _table(_result(NUMBERS), None)
