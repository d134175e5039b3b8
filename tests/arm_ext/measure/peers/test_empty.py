# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnxruntime

from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.measure.peers.empty import INPUTS, write_empty


def test_the_onnx_model_returns_its_input(tmp_path: Path) -> None:
    session = onnxruntime.InferenceSession(write_empty("onnx", tmp_path))
    assert session.run(None, {"x": INPUTS[0]}) == [INPUTS[0]]


def test_the_tflite_model_returns_its_input(tmp_path: Path) -> None:
    (y,) = run_litert(write_empty("tflite", tmp_path).read_bytes(), INPUTS)
    assert np.array_equal(y, INPUTS[0])
