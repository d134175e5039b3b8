# SPDX-License-Identifier: Apache-2.0
"""Models with tensors whose size the run decides, through the compiler."""

from pathlib import Path

import onnx.parser
import pytest

import arm_ext
from arm_ext.common.errors import ModelError

_BOXES = """(float[1,20,4] b, float[1,2,20] s) => ({result} z)
    <int64[1] most = {{5}}, float[1] least = {{0.5}}, int64[2] begin = {{0,2}}, int64[2] end = {{5,3}},
     int64[1] flat = {{-1}}, int64[2] rows = {{20,4}}>
    {{ [scores] q = Sigmoid(s) [boxes] r = Relu(b) [select] k = NonMaxSuppression(r, q, most, least, least) {rest} }}"""
_PICKED = """[cut] c = Slice(k, begin, end) [flat] i = Reshape(c, flat)
    [all] t = Reshape(r, rows) [pick] z = Gather(t, i)"""


@pytest.mark.parametrize(
    ("text", "node", "fed"),
    [
        (_BOXES.format(result="int64[k,3]", rest="[same] z = Identity(k)"), "select", "'boxes', 'scores'"),
        (_BOXES.format(result="float[k,4]", rest=_PICKED), "select", "'boxes', 'scores'"),
        ("(float[4] x) => (int64[1,k] z) { [relu] y = Relu(x) [where] z = NonZero(y) }", "where", "'relu'"),
        ("(float[4] x, bool[4] w) => (float[k] z) { [take] z = Compress<axis=0>(x, w) }", "take", "'w'"),
    ],
    ids=["boxes", "picked boxes", "non-zero", "compress"],
)
def test_a_size_that_depends_on_the_data_is_refused_with_where_to_cut(
    text: str, node: str, fed: str, tmp_path: Path
):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    with pytest.raises(
        ModelError, match=rf"node '{node}' gives a tensor whose size depends on the data.* \({fed}\)"
    ):
        arm_ext.compile(model, "host", tmp_path / "p")
    assert not (tmp_path / "p").exists()
