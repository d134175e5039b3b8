# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np

import arm_ext
from arm_ext.api import digits
from arm_ext.board import Board
from arm_ext.package import SELFTEST, Selftest


def test_a_frame_of_any_size_gives_the_source_runtimes_labels(tmp_path: Path, board: Board):
    steps = [{"crop": {"size": [24, 24]}}, {"resize": {}}, {"normalize": {"divide": 16}}]
    spec = arm_ext.Preprocess.model_validate(
        {
            "inputs": {"image": {"frame": [31, 27, 1], "steps": steps}},
            "outputs": {"logits": [{"top_k": {"k": 3}}]},
        }
    )
    package = arm_ext.compile(digits.model_path("int8"), output=tmp_path / "p", preprocess=spec).package
    selftest = Selftest.load(tmp_path / "p" / SELFTEST)
    values, labels = board.load(package.so).run(selftest.inputs)
    np.testing.assert_array_equal(labels, selftest.source[1])
    np.testing.assert_array_equal(values, selftest.source[0])
