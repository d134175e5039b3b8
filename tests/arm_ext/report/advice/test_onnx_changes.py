# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from arm_ext.report.advice.onnx_changes import Changed, convolutions, full_tile, hard_swish, padded_channels
from tests.arm_ext.models import model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 3, 6, 6), dtype=np.float32)


def computed(proto: onnx.ModelProto) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": X})
    return np.asarray(found)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def chain(channels: int = 28, *, also_output: bool = False) -> onnx.ModelProto:
    """Conv, batch normalisation, clip, depthwise conv, relu, conv."""
    constants = {
        "w1": weights(channels, 3, 3, 3),
        "b1": weights(channels),
        **{name: abs(weights(channels)) for name in ("scale", "shift", "mean", "variance")},
        "low": np.float32(0),
        "high": np.float32(6),
        "dw": weights(channels, 1, 3, 3),
        "w2": weights(5, channels, 1, 1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], name="first"),
        helper.make_node(
            "BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], name="norm"
        ),
        helper.make_node("Clip", ["n", "low", "high"], ["k"], name="clip"),
        helper.make_node("Conv", ["k", "dw"], ["d"], name="depthwise", group=channels),
        helper.make_node("Relu", ["d"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["y"], name="last"),
    ]
    return model(nodes, {"x": [1, 3, 6, 6]}, ["y", "r"] if also_output else ["y"], constants)


def test_padded_channels_keep_the_numbers() -> None:
    proto = chain()
    changed = padded_channels(proto, ["first", "last"])
    assert changed is not None
    assert changed.sources == ("first",)
    assert changed.what == "28 → 32 channels (1)"
    assert dict(convolutions(changed.model)) == {"first": 32, "depthwise": 32, "last": 5}
    onnx.checker.check_model(changed.model, full_check=True)
    np.testing.assert_allclose(computed(changed.model), computed(proto), rtol=1e-5, atol=1e-5)
    assert dict(convolutions(proto))["first"] == 28


@pytest.mark.parametrize("proto", [chain(32), chain(28, also_output=True)])
def test_channels_stay_that_fill_a_tile_or_show_at_an_output(proto: onnx.ModelProto) -> None:
    assert padded_channels(proto, ["first"]) is None


def test_channels_stay_that_a_branch_reads() -> None:
    proto = chain(28)
    branches = []
    for name in ("then", "else"):
        output = helper.make_tensor_value_info(f"{name}_r", onnx.TensorProto.FLOAT, None)
        nodes = [helper.make_node("Identity", ["r"], [output.name], f"{name}_identity")]
        branches.append(helper.make_graph(nodes, name, [], [output]))
    node = helper.make_node("If", ["go"], ["z"], "choice", then_branch=branches[0], else_branch=branches[1])
    proto.graph.node.append(node)
    proto.graph.input.append(helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []))
    proto.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    assert padded_channels(proto, ["first"]) is None


@pytest.mark.parametrize(
    ("channels", "wanted"), [(16, None), (30, 32), (24, None), (20, 24), (9, None), (7, 8), (3, None)]
)
def test_the_next_full_tile(channels: int, wanted: int | None) -> None:
    assert full_tile(channels) == wanted


def silu(*, gate_elsewhere: bool = False) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Sigmoid", ["c"], ["s"], name="sigmoid"),
        helper.make_node("Mul", ["c", "s"], ["m"], name="mul"),
        helper.make_node("Add", ["m", "s" if gate_elsewhere else "m"], ["y"], name="add"),
    ]
    return model(nodes, {"x": [1, 3, 6, 6]}, ["y"], {"w": weights(4, 3, 1, 1)})


def test_silu_becomes_hard_swish() -> None:
    proto = silu()
    changed = hard_swish(proto)
    assert isinstance(changed, Changed)
    assert changed.sources == ("sigmoid", "mul")
    assert [node.op_type for node in changed.model.graph.node] == ["Conv", "HardSigmoid", "Mul", "Add"]
    onnx.checker.check_model(changed.model)
    # Hard-swish is 0.142 from SiLU at 3, and nearer elsewhere; `add` doubles it.
    assert 0 < np.abs(computed(changed.model) - computed(proto)).max() < 0.29


def test_a_sigmoid_that_is_read_elsewhere_stays() -> None:
    assert hard_swish(silu(gate_elsewhere=True)) is None
