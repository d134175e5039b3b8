# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from arm_ext.report.advice.onnx_npu import NEAREST, Nearest, replaced
from tests.arm_ext.models import model

OF = {each.operator: each for each in NEAREST}
X = np.random.default_rng(3).standard_normal((1, 2, 3, 4), dtype=np.float32)
GAIN, BIAS = np.linspace(0.5, 2, 4, dtype=np.float32), np.linspace(-1, 1, 4, dtype=np.float32)
SCALES = np.array([1, 1, 2, 2], np.float32)


def one(
    operator: str, *inputs: str, outputs: Sequence[str] = ("y",), **attributes: object
) -> onnx.ModelProto:
    nodes = [helper.make_node(operator, ["x", *inputs], outputs, name="node", **attributes)]
    constants = {"gain": GAIN, "bias": BIAS, "scales": SCALES}
    return model(
        nodes, {"x": list(X.shape)}, list(outputs), {name: constants[name] for name in inputs if name}
    )


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "names", "expected"),
    [
        ("LayerNormalization", ("gain", "bias"), {}, ("node", "node/shift"), X * GAIN + BIAS),
        ("LayerNormalization", ("gain",), {}, ("node",), X * GAIN),
        ("LogSoftmax", (), {"axis": 1}, ("node",), np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)),
        ("Resize", ("", "scales"), {"mode": "cubic"}, ("node",), X.repeat(2, axis=2).repeat(2, axis=3)),
    ],
)
def test_an_operator_is_replaced_by_the_nearest(
    operator: str,
    given: tuple[str, ...],
    attributes: dict[str, object],
    names: tuple[str, ...],
    expected: np.ndarray,
) -> None:
    found = replaced(one(operator, *given, **attributes), {"node"}, OF[operator])
    assert found is not None
    assert (found.sources, found.comparable) == (names, False)
    session = onnxruntime.InferenceSession(
        found.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": X})
    # One multiplication, addition or division of float32 a result, and a sum of two in softmax.
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("proto", "nearest"),
    [
        (one("Resize", "", "scales", mode="nearest"), OF["Resize"]),
        (one("LayerNormalization", "gain", outputs=("y", "mean")), OF["LayerNormalization"]),
        (one("LogSoftmax"), OF["Resize"]),
    ],
)
def test_what_has_no_nearest_operator_stays(proto: onnx.ModelProto, nearest: Nearest) -> None:
    assert replaced(proto, {"node"}, nearest) is None


def test_nodes_that_are_on_the_npu_stay() -> None:
    assert replaced(one("LogSoftmax"), {"other"}, OF["LogSoftmax"]) is None
