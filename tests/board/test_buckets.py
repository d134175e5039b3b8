# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.board import Board
from arm_ext.common.errors import ModelError
from tests.arm_ext.models import mlp


def test_each_shape_is_computed_and_another_is_refused_by_name(tmp_path: Path, board: Board):
    sizes = [1, 7, 31]
    package = arm_ext.compile(mlp("n"), output=tmp_path / "p", shapes={"x": (sizes, 31)}).package
    model = board.load(package.so)
    for view, size in zip(package.views(), sizes, strict=True):
        selftest = view.selftest()
        (found,) = model.run(selftest.inputs)
        assert found.shape == (size, 7)
        # Sums of at most 31 products; 1e-5 relative to the largest output is 80 roundings of binary32.
        np.testing.assert_allclose(found, selftest.source[0], rtol=0, atol=1e-5 * np.abs(found).max())
    with pytest.raises(
        ModelError, match=r"compiled for these shapes alone: x float32\[1, 31\]; .*\[31, 31\]"
    ):
        model.run([np.zeros((8, 31), np.float32)])


def test_any_number_of_samples(tmp_path: Path, board: Board):
    package = arm_ext.compile(mlp("n"), output=tmp_path / "p", shapes={"x": ("n", 31)}).package
    model, selftest = board.load(package.so), package.selftest()
    (found,) = model.run(selftest.inputs)
    np.testing.assert_allclose(found, selftest.source[0], rtol=0, atol=1e-5 * np.abs(found).max())
    x = np.repeat(selftest.inputs[0][:1], 9, axis=0)
    (repeated,) = model.run([x])
    np.testing.assert_array_equal(repeated, np.repeat(found[:1], 9, axis=0))
