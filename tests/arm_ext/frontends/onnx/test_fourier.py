# SPDX-License-Identifier: Apache-2.0
"""Transforms of one side of a spectrum, whose length says little of the signal's."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host


@pytest.mark.parametrize("length", [None, 10, 9, 7, 12])
@pytest.mark.parametrize("opset", [17, 20])
def test_inverse_of_one_side(length: int | None, opset: int):
    x = np.random.default_rng(3).standard_normal((1, 6, 2)).astype(np.float32)
    constants = {} if length is None else {"n": np.int64(length)}
    names, axis = ["x", "n" if constants else ""], {"axis": 1} if opset < 20 else {}
    if opset >= 20:
        names.append("axis")
        constants["axis"] = np.int64(1)
    node = helper.make_node("DFT", names, ["y"], inverse=1, onesided=1, **axis)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    (got,) = run_on_host(import_onnx(model).mod, [x])
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis=1)[..., None]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
