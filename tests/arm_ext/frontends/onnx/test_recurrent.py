# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from arm_ext.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import unnamed_calls

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUT, HIDDEN = 5, 7


def recurrent(
    kind: str, *, steps: int = 3, batch: int = 2, optional: tuple[str, ...] = ("B",), **attributes: object
) -> onnx.ModelProto:
    """A model of one node with random weights; `optional` names the inputs that it has beyond X, W and R."""
    rng = np.random.default_rng(7)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    shapes = {
        "W": (directions, rows, INPUT),
        "R": (directions, rows, HIDDEN),
        "B": (directions, 2 * rows),
        "h": (directions, batch, HIDDEN),
        "c": (directions, batch, HIDDEN),
        "P": (directions, 3 * HIDDEN),
    }
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name)
        for name, shape in shapes.items()
        if name in ("W", "R", *optional)
    ]
    weights.append(numpy_helper.from_array(np.array([steps, 1], np.int32), "lengths"))
    names = ["W", "R", "B", "lengths", "h", *(["c", "P"] if kind == "LSTM" else [])]
    inputs = ["X", *(name if name in ("W", "R", *optional) else "" for name in names)]
    outputs = ["Y", "Y_h", *(["Y_c"] if kind == "LSTM" else [])]
    node = helper.make_node(kind, inputs, outputs, "cell", hidden_size=HIDDEN, **attributes)
    ends = [helper.make_tensor_value_info("Y", 1, (steps, directions, batch, HIDDEN))]
    ends += [helper.make_tensor_value_info(name, 1, (directions, batch, HIDDEN)) for name in outputs[1:]]
    data = helper.make_tensor_value_info("X", 1, (steps, batch, INPUT))
    used = [tensor for tensor in weights if tensor.name in inputs]
    graph = helper.make_graph([node], "g", [data], ends, used)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


FORMS = [
    ("LSTM", {"direction": "bidirectional"}),
    ("LSTM", {"optional": ("B", "h", "c", "P")}),
    ("LSTM", {"optional": ("lengths",), "direction": "reverse", "clip": 0.3}),
    ("GRU", {"direction": "reverse", "optional": ("B", "h")}),
    ("GRU", {"linear_before_reset": 1, "direction": "bidirectional", "optional": ("B", "lengths")}),
    (
        "GRU",
        {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    ),
    ("RNN", {"activations": ["Relu"], "optional": ("B", "h")}),
    ("RNN", {"steps": 1, "batch": 1}),
]


@pytest.mark.parametrize(
    ("kind", "form"), FORMS, ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(FORMS)]
)
def test_equals_onnxruntime(kind: str, form: dict[str, object]):
    proto = recurrent(kind, **form)
    x = np.random.default_rng(1).normal(
        size=[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    )
    inputs = [x.astype(np.float32)]
    expected = run_onnxruntime(proto.SerializeToString(), inputs, integers=False)
    imported = import_onnx(proto)
    assert imported.nodes == {"cell": kind}
    assert unnamed_calls(imported.mod) == []
    # Each step's exponentials are another polynomial's, and the state carries what they differ by.
    for found, wanted in zip(run_on_host(imported.mod, inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)


def test_an_unknown_activation_is_named():
    with pytest.raises(ModelError, match=r"RNN \(1x\): cell \(its activation Affine is not among Relu"):
        import_onnx(recurrent("RNN", activations=["Affine"]))
