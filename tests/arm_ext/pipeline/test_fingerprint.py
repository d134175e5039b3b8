# SPDX-License-Identifier: Apache-2.0
"""Each thing that decides a result decides its hash."""

import numpy as np
import onnx
import onnx.parser

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline import fingerprint


def _hash(weights: np.ndarray, axis: int = 1) -> str:
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] z) '
        f"{{y = Add(x, w) z = Softmax<axis = {axis}>(y)}}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return fingerprint.module(import_onnx(model).mod)


def test_a_module_is_told_by_its_operators_and_the_bytes_of_its_constants():
    weights = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    changed = weights.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], np.float32(2))
    assert _hash(weights) == _hash(weights)
    assert len({_hash(weights), _hash(changed), _hash(weights, axis=0), _hash(weights[:1])}) == 4


def test_a_single_number_is_told_by_its_bytes():
    one = np.array(1, np.float32)
    assert _hash(one) != _hash(np.nextafter(one, np.float32(2)))


def test_arrays_are_told_by_type_shape_and_order():
    x = np.arange(6, dtype=np.int32)
    kinds = ([x], [x.view(np.float32)], [x.reshape(2, 3)], [x[:3], x[3:]], [x[3:], x[:3]], [x[::-1]], [x[:0]])
    assert len({fingerprint.arrays(kind) for kind in kinds}) == len(kinds)
