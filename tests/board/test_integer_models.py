# SPDX-License-Identifier: Apache-2.0
"""A trained int8 model on the board equals onnxruntime, told to run integers, in every output."""

from pathlib import Path

import numpy as np

import arm_ext
from arm_ext.api import digits
from arm_ext.board import Board
from arm_ext.frontends.onnx.reference import run_onnxruntime

_IMAGES = 36


def test_digits_equals_onnxruntime_in_integers(tmp_path: Path, board: Board):
    model = digits.model_path("int8")
    result = arm_ext.compile(model, output=tmp_path / "p")
    assert result.report.left_float == ()
    assert result.package.manifest.check.relative_bound == 0
    loaded = board.load(result.package.so)
    data = model.read_bytes()
    for image in digits.held_out()[0][:_IMAGES, None]:
        (ours,) = loaded.run([image])
        (theirs,) = run_onnxruntime(data, [image], integers=True)
        np.testing.assert_array_equal(ours, theirs)
