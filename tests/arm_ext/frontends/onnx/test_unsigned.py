# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import pytest
from onnx import TensorProto

from arm_ext.api import digits
from arm_ext.frontends.onnx import reference
from arm_ext.frontends.onnx.unsigned import with_unsigned_activations
from arm_ext.quantization.layers import with_outputs


def signed() -> bytes:
    """The digits in int8, with their integers as outputs, too."""
    proto = onnx.load(digits.model_path("int8"))
    held = {tensor.name for tensor in proto.graph.initializer}
    inner = [
        n.input[0] for n in proto.graph.node if n.op_type == "DequantizeLinear" and n.input[0] not in held
    ]
    shown = with_outputs(proto, inner)
    for value in shown.graph.output[1:]:
        value.type.tensor_type.elem_type = TensorProto.INT8
    return bytes(shown.SerializeToString())


def test_every_integer_is_the_same():
    model, image = signed(), digits.held_out()[0][:1]
    unsigned = with_unsigned_activations(model)
    assert unsigned is not None
    kinds = {tensor.name: tensor.data_type for tensor in onnx.load_from_string(unsigned).graph.initializer}
    assert TensorProto.UINT8 in {kinds[name] for name in kinds if name.endswith("/unsigned")}
    pairs = zip(
        reference.run_onnxruntime(model, [image], integers=False),
        reference.run_onnxruntime(unsigned, [image], integers=False),
        strict=True,
    )
    for before, after in pairs:
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)


def test_a_signed_product_is_computed_in_integers_without_vnni(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reference, "_has_vnni", lambda: False)
    model, image = signed(), digits.held_out()[0][:1]
    found = reference.run_onnxruntime(model, [image], integers=True)
    for before, after in zip(reference.run_onnxruntime(model, [image], integers=False), found, strict=True):
        # Float and integers differ by a step where a result is halfway between two.
        assert np.abs(before.astype(np.float32) - after).max() <= 1


def test_integers_as_inputs_are_another_form():
    proto = onnx.load_from_string(signed())
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    assert with_unsigned_activations(proto.SerializeToString()) is None
