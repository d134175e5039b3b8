# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN against onnxruntime."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.recurrent_activations import _DEFAULTS, _PLAIN
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.selftest import check_of, run_on_host
from relay_passes.ir.sources import bindings_of, unnamed_calls
from tests.arm_ext.frontends.onnx.test_control import Compiled

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


def with_weights_as_input(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, np.ndarray]:
    """The model with R as an input, and R."""
    weights = next(tensor for tensor in proto.graph.initializer if tensor.name == "R")
    r = numpy_helper.to_array(weights)
    proto.graph.input.append(helper.make_tensor_value_info("R", 1, r.shape))
    proto.graph.initializer.remove(weights)
    return proto, r


FORMS = [
    ("LSTM", {"direction": "bidirectional"}),
    ("LSTM", {"optional": ("B", "h", "c", "P")}),
    ("LSTM", {"optional": ("lengths",), "direction": "reverse", "clip": 0.3}),
    ("LSTM", {"direction": "bidirectional", "optional": ("B", "lengths", "h", "c")}),
    ("GRU", {"direction": "reverse", "optional": ("B", "h")}),
    ("GRU", {"linear_before_reset": 1, "direction": "bidirectional", "optional": ("B", "lengths")}),
    (
        "GRU",
        {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    ),
    ("LSTM", {"input_forget": 1, "optional": ("B", "lengths", "P"), "direction": "bidirectional"}),
    ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
    ("RNN", {"activations": ["Elu"], "activation_alpha": [0.7]}),
    (
        "LSTM",
        {
            "activations": ["Affine", "ScaledTanh", "Softplus"],
            "activation_alpha": [0.1, 0.9],
            "activation_beta": [0.4, 0.8],
        },
    ),
    (
        "LSTM",
        {
            "activations": ["Affine", "ScaledTanh", "Tanh"],
            "activation_alpha": [0.1, 0.9],
            "activation_beta": [0.4, 0.8],
        },
    ),
    ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.3], "optional": ("B", "h")}),
    ("RNN", {"activations": ["Relu"], "optional": ("B", "h")}),
    ("RNN", {"steps": 1, "batch": 1}),
    ("GRU", {"activations": ["HardSigmoid", "Softplus"], "optional": ("B", "lengths")}),
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


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Softplus", "Tanh"] * 2, "direction": "bidirectional"}),
        (
            "GRU",
            {"activations": ["Sigmoid", "Softplus"], "optional": ("B", "lengths"), "direction": "reverse"},
        ),
    ],
    ids=["both ways", "lengths"],
)
def test_of_many_steps_cells_with_weights_as_input_are_loops(kind: str, form: dict[str, object]):
    proto, r = with_weights_as_input(recurrent(kind, steps=200, **form))
    compiled = Compiled.of(proto)
    kernels = compiled.results["plan"].kernels
    assert [kernel.kernel for kernel in kernels].count("loop") == 1 + (form["direction"] == "bidirectional")
    assert len(kernels) < 60
    compiled.check(np.random.default_rng(1).normal(size=(200, 2, INPUT)).astype(np.float32), r)


def loops_of(mod: tvm.IRModule) -> list[str]:
    return sorted(
        str(func.attrs["numerics"])
        for _, func in mod.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc) and "numerics" in func.attrs
    )


@pytest.mark.parametrize("kind", GATES)
def test_a_direction_is_one_call(kind: str):
    short, long = (
        import_onnx(recurrent(kind, steps=steps, direction="bidirectional")).mod for steps in (2, 40)
    )
    assert loops_of(short) == loops_of(long) == [f"float.{kind.lower()}"] * 2
    assert len(bindings_of(short["main"])) == len(bindings_of(long["main"]))


def test_the_batch_may_come_first():
    optional = ("B", "h")
    steps_first = recurrent("GRU", direction="bidirectional", optional=optional)
    batch_first = onnx.ModelProto()
    batch_first.CopyFrom(steps_first)
    (node,), graph = batch_first.graph.node, batch_first.graph
    node.attribute.append(helper.make_attribute("layout", 1))
    for value, axes in zip((*graph.input, *graph.output), ((1, 0, 2), (2, 0, 1, 3), (1, 0, 2)), strict=True):
        dims = [value.type.tensor_type.shape.dim[axis].dim_value for axis in axes]
        value.CopyFrom(helper.make_tensor_value_info(value.name, 1, dims))
    (initial,) = [tensor for tensor in graph.initializer if tensor.name == "h"]
    initial.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(initial).swapaxes(0, 1).copy(), "h"))
    x = np.random.default_rng(1).normal(size=(3, 2, INPUT)).astype(np.float32)
    y, h = run_on_host(import_onnx(steps_first).mod, [x])
    found = run_on_host(import_onnx(batch_first).mod, [x.swapaxes(0, 1).copy()])
    np.testing.assert_array_equal(found[0], y.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(found[1], h.swapaxes(0, 1))


@pytest.mark.parametrize("name", [*_PLAIN, *_DEFAULTS])
def test_no_activation_is_unrolled(name: str):
    assert loops_of(import_onnx(recurrent("RNN", activations=[name])).mod) == ["float.rnn"]


def test_weights_that_are_inputs_are_unrolled():
    proto, _ = with_weights_as_input(recurrent("RNN"))
    assert loops_of(import_onnx(proto).mod) == []


def test_multiply_accumulates_are_those_of_both_products():
    steps, batch = 3, 2
    macs = steps * batch * GATES["GRU"] * HIDDEN * (INPUT + HIDDEN)
    assert count_macs(import_onnx(recurrent("GRU")).mod) == {"cell": macs}


def test_every_step_counts_as_a_layer_of_halves():
    few, many = (import_onnx(recurrent("GRU", steps=steps)) for steps in (3, 15))
    bounds = [check_of(model, "fp16").relative_bound for model in (few, many)]
    # The node, and its steps.
    assert bounds == [2.0**-10 * np.sqrt(1 + steps) for steps in (3, 15)]


def test_an_unknown_activation_is_named():
    with pytest.raises(ModelError, match=r"RNN \(1x\): cell \(its activation is Mish; supported are Relu"):
        import_onnx(recurrent("RNN", activations=["Mish"]))
