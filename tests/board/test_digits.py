# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.board import Board
from arm_ext.common.distance import distance
from arm_ext.frontends.onnx.reference import run_onnxruntime


@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.long), "int8"])
def test_accuracy_on_the_board_is_onnxruntimes(tmp_path: Path, board: Board, precision: str):
    model = digits.model_path(precision)
    package = arm_ext.compile(model, output=tmp_path / "p").package
    loaded = board.load(package.so)
    data = model.read_bytes()
    images, labels = digits.held_out()
    ours, theirs = [], []
    for image in images[:, None]:
        ours.append(loaded.run([image])[0])
        theirs.append(run_onnxruntime(data, [image], integers=False)[0])
    if precision == "fp32":
        # Order of sums: 2^-24 * sqrt(k) with k at most some hundred products a layer.
        assert max(distance(a, b).relative for a, b in zip(ours, theirs, strict=True)) < 1e-5
    right = [
        sum(int(y.argmax() == label) for y, label in zip(run, labels, strict=True)) for run in (ours, theirs)
    ]
    assert right[0] == right[1] > 0.95 * len(labels)
