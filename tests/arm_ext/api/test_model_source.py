# SPDX-License-Identifier: Apache-2.0
"""What `compile` begins with."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from arm_ext.api.model_source import Source
from arm_ext.api.options import ModelOptions
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.shapes.given import Bucket
from arm_ext.target.profiles import resolve
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.state_models import convolution


def test_an_npu_is_given_the_model_for_it(tmp_path: Path):
    m, scale = TfliteBuilder(), 2.0**-15
    m.op("TANH", [m.take("int16", 1, 3, scale=scale)], [m.tensor("int16", 1, 3, scale=scale)])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    given = [Source(path, npu=npu).models([Bucket("", {})])[0][0][1] for npu in (False, True)]
    assert ["R.tanh" in str(model.mod) for model in given] == [False, True]


def test_the_self_test_begins_with_the_first_sample(tmp_path: Path):
    frames = np.arange(12, dtype=np.float32).reshape(4, 1, 3, 1)
    np.savez(tmp_path / "steps.npz", x=frames, labels=np.arange(4))
    first = {"buffer": np.full((1, 3, 4), 0.5, np.float32)}

    def inputs(**options: object) -> dict[str, np.ndarray]:
        source = Source(convolution(), ModelOptions(inputs=tmp_path / "steps.npz", **options))
        ((variant,), _) = source.variants([Bucket("", {})], PhaseOptions(resolve("host")))
        assert variant.given
        return dict(zip((spec.name for spec in variant.model.inputs), variant.inputs, strict=True))

    found = inputs(state={"buffer": "buffer_out"}, state_init=first)
    np.testing.assert_array_equal(found["x"], frames[0])
    np.testing.assert_array_equal(found["buffer"], first["buffer"])
    with pytest.raises(UsageError, match=r"no samples of .*steps\.npz for buffer; there are: x, labels"):
        inputs()
    np.savez(tmp_path / "steps.npz", x=frames[:, :, :2], buffer=first["buffer"][None])
    with pytest.raises(
        UsageError, match=r"for x: shape is \[4, 1, 2, 1\], the model takes \[samples, 1, 3, 1\]"
    ):
        inputs()


@pytest.mark.parametrize("given", [TensorProto.BFLOAT16, TensorProto.FLOAT])
def test_ends_of_bfloat16_are_refused(given: int):
    other = TensorProto.FLOAT + TensorProto.BFLOAT16 - given
    node = helper.make_node("Cast", ["x"], ["y"], to=other)
    ends = [helper.make_tensor_value_info(name, kind, [3]) for name, kind in (("x", given), ("y", other))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(ModelError, match=r"(input 'x'|output 'y') is of bfloat16"):
        Source(model).variants([Bucket("", {})], PhaseOptions(resolve("host")))
