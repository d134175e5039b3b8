# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

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


@pytest.mark.parametrize(("wrong", "passed"), [(0, True), (1, True), (2, False)])
def test_a_share_of_integers_may_differ_where_floats_decide_them(wrong: int, passed: bool) -> None:
    expected = np.arange(1000)
    found = np.where(expected < wrong, -1, expected)
    check = OutputCheck("y", "int64[1000]", distance(found, expected), None, None, None, differing=1e-3)
    assert check.passed == passed
    said = _table(RunResult({"y": found}, checks=(check,)), None)
    assert ("0.1 % may differ" if wrong else "must be equal") in said
    strict = OutputCheck("y", "int64[1000]", distance(found, expected), None, None, None)
    assert strict.passed == (not wrong)


def test_another_greatest_value_is_explained() -> None:
    assert "top-1 differs  the greatest value stands elsewhere" in _table(_result(NUMBERS[:, ::-1]), None)
    assert "top-1 differs" not in _table(_result(NUMBERS), None)
