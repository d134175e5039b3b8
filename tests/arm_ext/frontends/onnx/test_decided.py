# SPDX-License-Identifier: Apache-2.0
"""An If that shapes or constants decide, whose other branch does not fit the shapes that decided."""

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.load import with_values
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host

_WEIGHTS = "float[3,2] three = {1, 2, 3, 4, 5, 6}, float[4,2] four = {1, 2, 3, 4, 5, 6, 7, 8}"
_BY_SHAPE = (
    "s = Shape(x) i = Constant<value_int = 1>() d = Gather<axis = 0>(s, i) k = Constant<value_int = 3>() "
    "c = Equal(d, k)"
)


def _if(then: str, other: str, name: str = "y") -> str:
    return (
        f"{name} = If(c) <then_branch = then_{name} () => (float[P,2] t_{name}) {{{then}}}, "
        f"else_branch = else_{name} () => (float[Q,2] e_{name}) {{{other}}}>"
    )


_FLAT = _if("t_y = MatMul(x, three)", "e_y = MatMul(x, four)")
_NESTED = _if(
    "t_y = MatMul(x, three)",
    _if("t_e_y = MatMul(x, four)", "q = Concat<axis = 0>(x, four) e_e_y = MatMul(q, three)", "e_y").replace(
        "(c)", "(n)"
    ),
)


def _model(nodes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[1,N] x) => (float[A,B] y) <{_WEIGHTS}> {{{nodes}}}'
    )


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize(
    "nodes", [f"{_BY_SHAPE} {_FLAT}", f"{_BY_SHAPE} n = Not(c) {_NESTED}"], ids=["flat", "nested"]
)
def test_the_branch_that_shapes_decide_on_is_compiled(nodes: str, columns: int):
    x = np.arange(columns, dtype=np.float32).reshape(1, columns)
    (found,) = run_on_host(import_onnx(_model(nodes), shapes={"x": (1, columns)}).mod, [x])
    # onnxruntime 1.32 looks at both branches where sizes are given, and inside branches.
    np.testing.assert_array_equal(
        found, x @ np.arange(1, 2 * columns + 1, dtype=np.float32).reshape(columns, 2)
    )


def test_a_contradiction_that_no_branch_decides_on_is_told_by_its_node():
    with pytest.raises(ModelError) as refusal:
        import_onnx(_model(f"{_BY_SHAPE} {_FLAT}"), shapes={"x": (1, 5)})
    message = str(refusal.value)
    assert "contradict each other, at MatMul" in message
    assert "Incompatible dimensions for matrix multiplication; if" in message
    assert "--shape" in message
    assert "ShapeInferenceError" not in message


def _by_input() -> onnx.ModelProto:
    """Of an input `rate`, and in the other branch for one of 4 columns."""
    proto = _model(f"k = Constant<value_int = 16000>() c = Equal(rate, k) {_FLAT}")
    proto.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    return proto


def test_the_branch_that_the_value_of_an_input_decides_on_is_compiled():
    x = np.ones((1, 3), np.float32)
    model = import_onnx(with_values(_by_input(), {"rate": 16000}), shapes={"x": (1, 3)})
    assert [spec.name for spec in model.inputs] == ["x"]
    (found,) = run_on_host(model.mod, [x])
    np.testing.assert_array_equal(found, [[9, 12]])
    with pytest.raises(
        ModelError, match=r"contradict each other, at MatMul.* a branch by --value NAME=NUMBER"
    ):
        import_onnx(_by_input(), shapes={"x": (1, 3)})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 1}, "--value names no input: rat. The inputs are: x, rate"),
        ({"rate": [1, 2]}, r"--value rate: it has 2 numbers, but the input's shape is \[\]"),
        ({"rate": 1.5}, "--value rate: 1.5 cannot be converted to the input's dtype int64"),
        ({"rate": "16k"}, "--value rate: 16k cannot be converted to the input's dtype int64"),
        ({"x": [[]]}, r"--value x: it has 0 numbers, but the input's shape is \[1, \?\]"),
    ],
)
def test_a_value_that_does_not_fit_its_input_is_refused(values: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        with_values(_by_input(), values)


def test_only_onnx_models_have_values(tmp_path):
    (tmp_path / "m.tflite").write_bytes(b"\0\0\0\0TFL3")
    with pytest.raises(UsageError, match="--value makes inputs constants only for ONNX models"):
        with_values(tmp_path / "m.tflite", {"rate": 1})
