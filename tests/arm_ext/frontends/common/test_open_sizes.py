# SPDX-License-Identifier: Apache-2.0
"""Relax modules with tensors whose size the run decides."""

import onnx.parser
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.open_sizes import refuse_open_sizes
from arm_ext.frontends.onnx.convert import convert
from arm_ext.frontends.onnx.program import name_nodes


@pytest.mark.parametrize(
    ("text", "node", "fed"),
    [
        ("(float[4] x) => (int64[1,k] z) { [relu] y = Relu(x) [where] z = NonZero(y) }", "where", "'relu'"),
        ("(float[4] x, bool[4] w) => (float[k] z) { [take] z = Compress<axis=0>(x, w) }", "take", "'w'"),
        # TVM's size of a Range has a name of its own, which is none of the model's.
        (
            "(int64 n) => (int64[k] z) <int64 o = {0}, int64 s = {1}> { [all] z = Range(o, n, s) }",
            "all",
            "'n'",
        ),
    ],
    ids=["non-zero", "compress", "range"],
)
def test_a_size_that_depends_on_the_data_is_refused_with_where_to_cut(text: str, node: str, fed: str):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    name_nodes(model.graph)
    mod = convert(model, {}, {each.name: each.op_type for each in model.graph.node})
    with pytest.raises(
        ModelError, match=rf"node '{node}' gives a tensor whose size depends on the data.* \({fed}\)"
    ):
        refuse_open_sizes(mod)
