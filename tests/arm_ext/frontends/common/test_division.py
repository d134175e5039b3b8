# SPDX-License-Identifier: Apache-2.0
"""Each front end's divisions of integers, by 0 and by -1: none ends a process, all give what is defined."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from jax import lax

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.stablehlo.importer import import_stablehlo
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize.define_division import quotient, remainder
from tests.arm_ext.frontends.onnx.one_node import OneNode, set_output_shapes
from tests.arm_ext.frontends.stablehlo.models import text
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.torch import compared
from tests.relay_passes.canonicalize.test_define_division import pairs

Define = Callable[[np.ndarray, np.ndarray], np.ndarray]


def floored(define: Callable[..., np.ndarray]) -> Define:
    return lambda a, b: define(a, b, floor=True)


def check(model: ImportedModel, a: np.ndarray, b: np.ndarray, define: Define) -> None:
    (found,) = run_on_host(model.mod, [a, b])
    np.testing.assert_array_equal(found, define(a, b))


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


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16", "uint64"])
@pytest.mark.parametrize("case", ONNX)
def test_onnx(case: str, dtype: str):
    check(onnx_model(case, dtype), *pairs(dtype), ONNX[case][1])


def test_onnxruntime_is_asked_in_a_process_of_its_own():
    a, b = (
        np.full_like(numbers, number) for numbers, number in zip(pairs("int32"), (-(2**31), -1), strict=True)
    )
    outputs, why = onnx_model("Div", "int32").reference([a, b])
    if outputs:  # on a machine whose division does not trap
        np.testing.assert_array_equal(outputs[0], quotient(a, b))
    else:
        assert why.startswith("onnxruntime 1.")
        assert why.endswith("does not survive it: it divides an integer by 0, or the least one by -1")
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


TFLITE = {"DIV": quotient, "FLOOR_DIV": floored(quotient), "FLOOR_MOD": floored(remainder)}


@pytest.mark.parametrize("operator", TFLITE)
def test_tflite(tmp_path: Path, operator: str):
    a, b = pairs("int32")
    m = TfliteBuilder()
    m.op(operator, [m.take("int32", a.size), m.take("int32", a.size)], [m.tensor("int32", a.size)])
    (tmp_path / "model.tflite").write_bytes(m.build())
    model = import_tflite(tmp_path / "model.tflite")
    check(model, a, b, TFLITE[operator])
    assert model.reference([a, b])[0] == []
    ((found,), _) = model.reference([a, np.full_like(b, 3)])
    np.testing.assert_array_equal(found, TFLITE[operator](a, np.full_like(b, 3)))


def of_xla(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, np.invert(np.zeros_like(a)), quotient(a, b))


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint32"])
@pytest.mark.parametrize(
    ("function", "define"), [(lax.div, of_xla), (lax.rem, remainder)], ids=["div", "rem"]
)
def test_stablehlo(function: Callable[..., object], define: Define, dtype: str):
    a, b = pairs(dtype)
    model = import_stablehlo(text(function, [a, b]), "m")
    check(model, a, b, define)
    np.testing.assert_array_equal(model.reference([a, b])[0][0], define(a, b))


TORCH = {
    "trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), quotient),
    "floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), floored(quotient)),
    "//": (lambda a, b: a // b, floored(quotient)),
    "remainder": (torch.remainder, floored(remainder)),
    "fmod": (torch.fmod, remainder),
}


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("case", TORCH)
def test_torch(case: str, dtype: str):
    function, define = TORCH[case]
    a, b = pairs(dtype)
    # Of examples that torch survives.
    model = compared.imported(function, torch.from_numpy(a), torch.from_numpy(np.full_like(b, 3)))
    check(model, a, b, define)
    outputs, why = model.reference([a, b])
    assert outputs == []
    assert "cannot run it: " in why
    np.testing.assert_array_equal(
        model.reference([a, np.full_like(b, 3)])[0][0], define(a, np.full_like(b, 3))
    )
