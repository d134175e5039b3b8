# SPDX-License-Identifier: Apache-2.0
"""Threads that compile at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx

import arm_ext
from tests.arm_ext.models import mlp


def test_two_threads_compile_to_the_same_bytes(tmp_path: Path) -> None:
    onnx.save(mlp(), tmp_path / "mlp.onnx")
    outputs = [tmp_path / "a", tmp_path / "b"]
    with ThreadPoolExecutor(2) as pool:
        made = [
            pool.submit(arm_ext.compile, tmp_path / "mlp.onnx", target="host", output=out) for out in outputs
        ]
    assert [done.exception() for done in made] == [None, None]
    assert (outputs[0] / "model.so").read_bytes() == (outputs[1] / "model.so").read_bytes()
