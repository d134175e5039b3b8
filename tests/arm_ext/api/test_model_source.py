# SPDX-License-Identifier: Apache-2.0
"""What `compile` begins with."""

from pathlib import Path

from arm_ext.api.model_source import Source
from arm_ext.shapes.given import Bucket
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder


def test_an_npu_is_given_the_model_for_it(tmp_path: Path):
    m, scale = TfliteBuilder(), 2.0**-15
    m.op("TANH", [m.take("int16", 1, 3, scale=scale)], [m.tensor("int16", 1, 3, scale=scale)])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    given = [Source(path, npu=npu).models([Bucket("", {})])[0][0][1] for npu in (False, True)]
    assert ["R.tanh" in str(model.mod) for model in given] == [False, True]
