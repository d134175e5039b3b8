# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose to a given shape, against onnxruntime."""

import numpy as np
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.onnx.one_node import OneNode, set_output_shapes

# Sums of some dozens of products in binary32.
BOUND = 1e-5


def transposed(shape: list[int], **attributes: object) -> OneNode:
    node = OneNode(
        "ConvTranspose", "", outputs=("float32",), attributes={"output_shape": shape, **attributes}
    )
    return node.take("float32", 1, 2, 3, 4).weight("float32", 2, 5, 3, 3)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ([10, 8], {"strides": [3, 2], "auto_pad": "NOTSET"}),
        ([8, 8], {"strides": [3, 2]}),
        ([6, 6], {"strides": [3, 2], "auto_pad": "SAME_UPPER"}),
        ([6, 6], {"strides": [3, 2], "auto_pad": "SAME_LOWER"}),
        ([5, 6], {}),
    ],
)
def test_output_shape(shape: list[int], attributes: dict[str, object]):
    node = transposed(shape, **attributes)
    model, x = node.build(), node.values()
    set_output_shapes(model, [np.zeros((1, 5, *shape), np.float32)])
    imported = import_onnx(model)
    (found,), ((wanted,), _) = run_on_host(imported.mod, x), imported.reference(x)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOUND * np.abs(wanted).max())


def test_beyond_reach():
    model = transposed([20, 20]).build()
    set_output_shapes(model, [np.zeros((1, 5, 20, 20), np.float32)])
    with pytest.raises(ModelError, match="exceeds the largest possible output by 15"):
        import_onnx(model)
