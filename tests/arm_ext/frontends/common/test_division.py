# SPDX-License-Identifier: Apache-2.0
"""Divisions of integers by 0 and -1 in foreign runtimes and in constants; the values are those of test_vocabulary."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.tflite.importer import import_tflite
from relay_passes.canonicalize.define_division import quotient, remainder
from tests.arm_ext.frontends.onnx.one_node import OneNode, set_output_shapes
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.torch import compared
from tests.relay_passes.canonicalize.test_define_division import pairs


def floored(define: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda a, b: define(a, b, floor=True)


ONNX = {
    "Div": ({}, quotient),
    "Mod": ({}, floored(remainder)),
    "fmod": ({"fmod": 1}, remainder),
}


def onnx_model(case: str, dtype: str, b: np.ndarray | None = None) -> ImportedModel:
    count = pairs(dtype)[0].size
    node = OneNode("Mod" if case == "fmod" else case, "", outputs=(dtype,), attributes=ONNX[case][0])
    node.take(dtype, count)
    model = (node.take(dtype, count) if b is None else node.hold(b, dtype)).build()
    set_output_shapes(model, [np.zeros(count, dtype)])
    return import_onnx(model)


def test_onnxruntime_is_asked_in_a_process_of_its_own():
    a, b = (
        np.full_like(numbers, number) for numbers, number in zip(pairs("int32"), (-(2**31), -1), strict=True)
    )
    outputs, why = onnx_model("Div", "int32").reference([a, b])
    if outputs:  # on a machine whose division does not trap
        np.testing.assert_array_equal(outputs[0], quotient(a, b))
    else:
        assert why.startswith("onnxruntime 1.")
        assert why.endswith(
            "crashes when it runs the model: it divides an integer by 0, or the smallest integer by -1"
        )
    assert "cannot run it: " in onnx_model("Mod", "int32").reference([a, a * 0])[1]
    (found,), name = onnx_model("Div", "int32").reference([a, a * 0 + 3])
    assert name.startswith("onnxruntime 1.")
    np.testing.assert_array_equal(found, quotient(a, a * 0 + 3))


def test_onnx_constants_are_folded_as_they_are_computed():
    from onnx import helper

    from arm_ext.frontends.onnx.evaluation import evaluate_node

    a, b = pairs("int64")
    for case, (attributes, define) in ONNX.items():
        node = helper.make_node("Mod" if case == "fmod" else case, ["a", "b"], ["y"], **attributes)
        (found,) = evaluate_node(node, 17, {"a": a, "b": b})
        np.testing.assert_array_equal(found, define(a, b))


def test_litert_is_not_asked_what_ends_it(tmp_path: Path):
    a, b = pairs("int32")
    m = TfliteBuilder()
    m.op("FLOOR_DIV", [m.take("int32", a.size), m.take("int32", a.size)], [m.tensor("int32", a.size)])
    (tmp_path / "model.tflite").write_bytes(m.build())
    model = import_tflite(tmp_path / "model.tflite")
    assert model.reference([a, b])[0] == []
    ((found,), _) = model.reference([a, np.full_like(b, 3)])
    np.testing.assert_array_equal(found, quotient(a, np.full_like(b, 3), floor=True))


def test_torch_is_not_asked_what_ends_it():
    a, b = pairs("int64")
    # Examples that torch survives.
    model = compared.imported(torch.remainder, torch.from_numpy(a), torch.from_numpy(np.full_like(b, 3)))
    outputs, why = model.reference([a, b])
    assert outputs == []
    assert "cannot run it: " in why
    threes = np.full_like(b, 3)
    np.testing.assert_array_equal(model.reference([a, threes])[0][0], remainder(a, threes, floor=True))
