# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from onnx import helper
from torch.nn import functional

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.nearest_operators import NEAREST, Nearest, replaced
from tests.arm_ext.report.advice.formats import computed, from_onnx, from_torch

SCALE, SOFTMAX, PIXEL = NEAREST
X = np.random.default_rng(3).standard_normal((1, 2, 3, 4), dtype=np.float32)
GAIN, BIAS = np.linspace(0.5, 2, 4, dtype=np.float32), np.linspace(-1, 1, 4, dtype=np.float32)
SCALES = np.array([1, 1, 2, 2], np.float32)
REPEATED = X.repeat(2, axis=2).repeat(2, axis=3)


def one(operator: str, *inputs: str, outputs: Sequence[str] = ("y",), **attributes: object) -> ImportedModel:
    node = helper.make_node(operator, ["x", *inputs], outputs, name="node", **attributes)
    constants = {"gain": GAIN, "bias": BIAS, "scales": SCALES}
    return from_onnx([node], [*X.shape], tuple(outputs), **{name: constants[name] for name in inputs if name})


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "nearest", "expected"),
    [
        ("LayerNormalization", ("gain", "bias"), {}, SCALE, X * GAIN + BIAS),
        ("LayerNormalization", ("gain",), {}, SCALE, X * GAIN),
        ("LogSoftmax", (), {"axis": 1}, SOFTMAX, np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)),
        ("Resize", ("", "scales"), {"mode": "linear"}, PIXEL, REPEATED),
        ("Resize", ("", "scales"), {"mode": "cubic"}, PIXEL, REPEATED),
    ],
)
def test_an_operator_is_replaced_by_the_nearest(
    operator: str,
    given: tuple[str, ...],
    attributes: dict[str, object],
    nearest: Nearest,
    expected: np.ndarray,
) -> None:
    found = replaced(one(operator, *given, **attributes), {"node"}, nearest)
    assert found is not None
    assert (found.sources, found.comparable) == (("node",), False)
    assert found.what == f"{operator} → {nearest.instead}"
    # One multiplication, addition or division of float32 a result, and a sum of two in softmax.
    np.testing.assert_allclose(computed(found.model, X), expected, rtol=1e-6, atol=1e-6)


def test_operators_of_torch_have_names_of_torch() -> None:
    gain, bias = torch.from_numpy(GAIN), torch.from_numpy(BIAS)
    norm = from_torch(lambda x: functional.layer_norm(x, (4,), gain, bias), torch.from_numpy(X))
    found = replaced(norm, {"layer_norm"}, SCALE)
    assert found is not None
    assert found.what == "aten.layer_norm.default → batch normalisation"
    np.testing.assert_allclose(computed(found.model, X), X * GAIN + BIAS, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "nearest"),
    [
        (one("Resize", "", "scales", mode="nearest"), PIXEL),
        (one("Relu"), PIXEL),
        (one("LogSoftmax"), PIXEL),
    ],
)
def test_what_has_no_nearest_operator_stays(model: ImportedModel, nearest: Nearest) -> None:
    assert replaced(model, {"node"}, nearest) is None


@pytest.mark.parametrize(("operator", "nearest"), [("LogSoftmax", SOFTMAX), ("Resize", PIXEL)])
def test_nodes_that_are_on_the_npu_stay(operator: str, nearest: Nearest) -> None:
    inputs = ("", "scales") if operator == "Resize" else ()
    assert (
        replaced(one(operator, *inputs, **({"mode": "linear"} if inputs else {})), {"other"}, nearest) is None
    )
