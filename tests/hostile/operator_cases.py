# SPDX-License-Identifier: Apache-2.0
"""ONNX operators whose attributes, operands and branches contradict each other, or ask for what cannot be computed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.hostile.case import DONE, FINDING, REFUSED, USAGE, Case, cases
from tests.hostile.models import FLOAT, constant, node, relu, saved

_RUN = ("compile", "m.onnx", "--target", "host")
_EITHER = frozenset({DONE, FINDING, USAGE})
_PACKAGE = ("m.armpkg", "m.armpkg/*")
_IMAGE = (1, 4, 8, 8)
_WEIGHT = constant("w", np.ones((4, 4, 3, 3)), "float32")


def _op(
    what: str,
    kind: str,
    says: str,
    *operands: object,
    shape: Sequence[int] = (1, 8),
    out: Sequence[int | str] | None = (1, 8),
    result: int = FLOAT,
    given: int = FLOAT,
    opset: int = 21,
    domain: str = "",
    either: bool = False,
    results: int = 1,
    **attributes: Any,
) -> tuple[object, ...]:
    """A case of one node of x and constants; `either` if both a package and a refusal are right."""

    def made() -> onnx.ModelProto:
        weights = [
            value if isinstance(value, onnx.TensorProto) else constant(f"c{k}", value)
            for k, value in enumerate(operands)
            if value is not None
        ]
        names = iter([weight.name for weight in weights])
        inputs = ["x", *(next(names) if value is not None else "" for value in operands)]
        outputs = ["y", *(f"y{k}" for k in range(1, results))]
        model = relu(
            [node(kind, inputs, outputs, name="the_node", domain=domain, **attributes)],
            shape,
            shapes=[out],
            kind=given,
            weights=weights,
            opset=opset,
            ir=10,
        )
        model.graph.output[0].type.tensor_type.elem_type = result
        if domain:
            model.opset_import.append(helper.make_opsetid(domain, 1))
        return model

    more = {"exits": _EITHER, "writes": _PACKAGE} if either else {"exits": REFUSED}
    return what, _RUN, says, {"make": saved(made), **more}


def _f(name: str, value: object) -> onnx.TensorProto:
    return constant(name, value, "float32")


_THE = r"the_node"
_INT64, _BOOL, _INT8, _UINT8 = TensorProto.INT64, TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8

ATTRIBUTES = cases(
    "compile/operators",
    [
        _op("conv-group-0", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, group=0),
        _op("conv-group-3", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, group=3),
        _op("conv-group-negative", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, group=-1),
        _op("conv-kernel-shape-differs", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, kernel_shape=[5, 5]),
        _op("conv-dilation-0", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, dilations=[0, 1]),
        _op("conv-stride-2-to-31", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, strides=[2**31, 1]),
        _op("conv-pads-three", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, pads=[1, 1, 1]),
        _op("conv-pads-huge", "Conv", _THE, _WEIGHT, shape=_IMAGE, out=None, pads=[2**40] * 4),
        _op("conv-auto-pad-unknown", "Conv", r"the_node|auto_pad", _WEIGHT, shape=_IMAGE, out=None, auto_pad="SAME"),
        _op("conv-weight-of-rank-2", "Conv", _THE, _f("w", np.ones((4, 4))), shape=_IMAGE, out=None),
        _op("conv-weight-empty", "Conv", _THE, _f("w", np.ones((0, 4, 3, 3))), shape=_IMAGE, out=None, either=True),
        _op("conv-bias-of-another-size", "Conv", _THE, _WEIGHT, _f("b", np.ones(3)), shape=_IMAGE, out=None),
        _op("conv-no-samples", "Conv", r"the_node|no elements|\bx\b", _WEIGHT, shape=(0, 4, 8, 8), out=None, either=True),
        _op("transposed-output-shape-negative", "ConvTranspose", _THE, _WEIGHT, shape=_IMAGE, out=None, output_shape=[-5, 8]),
        _op("transposed-output-padding", "ConvTranspose", _THE, _WEIGHT, shape=_IMAGE, out=None, output_padding=[9, 9], either=True),
        _op("pool-kernel-0", "MaxPool", _THE, shape=_IMAGE, out=None, kernel_shape=[0, 2]),
        _op("pool-pads-as-kernel", "MaxPool", _THE, shape=_IMAGE, out=None, kernel_shape=[2, 2], pads=[2, 2, 2, 2], either=True),
        _op("pool-all-pads", "AveragePool", _THE, shape=_IMAGE, out=None, kernel_shape=[2, 2], pads=[3, 3, 3, 3], strides=[9, 9], either=True),
        _op("pool-kernel-of-rank-3", "MaxPool", _THE, shape=_IMAGE, out=None, kernel_shape=[2, 2, 2]),
        _op("reshape-two-unknown", "Reshape", _THE, [-1, -1], out=None),
        _op("reshape-0-beyond-rank", "Reshape", _THE, [1, 8, 0], out=None),
        _op("reshape-other-count", "Reshape", _THE, [1, 9], out=None),
        _op("reshape-of-2-to-62", "Reshape", _THE, [2**62, 4], out=None),
        _op("reshape-of-minus-2", "Reshape", _THE, [-2, 8], out=None),
        _op("expand-of-2-to-40", "Expand", _THE, [2**40, 8], out=None),
        _op("expand-unfit", "Expand", _THE, [3, 9], out=None),
        _op("tile-negative", "Tile", _THE, [1, -1], out=None),
        _op("resize-scale-0", "Resize", _THE, None, _f("s", [1, 1, 0, 0]), shape=_IMAGE, out=None),
        _op("resize-scale-nan", "Resize", _THE, None, _f("s", [1, 1, np.nan, 1]), shape=_IMAGE, out=None),
        _op("resize-scale-1e30", "Resize", _THE, None, _f("s", [1, 1, 1e30, 1]), shape=_IMAGE, out=None),
        _op("resize-scale-negative", "Resize", _THE, None, _f("s", [1, 1, -2, 1]), shape=_IMAGE, out=None),
        _op("resize-size-0", "Resize", _THE, None, None, [1, 4, 0, 8], shape=_IMAGE, out=None),
        _op("resize-axes-outside", "Resize", _THE, None, _f("s", [2, 2]), shape=_IMAGE, out=None, axes=[2, 7]),
        _op("resize-mode-unknown", "Resize", r"the_node|mode", None, _f("s", [1, 1, 2, 2]), shape=_IMAGE, out=None, mode="lanczos"),
        _op("pad-below-nothing", "Pad", _THE, [0, -9, 0, 0], out=None),
        _op("pad-of-three", "Pad", _THE, [0, 1, 0], out=None),
        _op("pad-mode-unknown", "Pad", r"the_node|mode", [0, 1, 0, 1], out=None, mode="mirror"),
        _op("pad-least-integer", "Pad", _THE, [0, -(2**63), 0, 0], out=None),
        _op("slice-step-0", "Slice", _THE, [0], [4], [1], [0], out=None),
        _op("slice-step-least", "Slice", _THE, [7], [-(2**63)], [1], [-(2**63)], out=None, either=True),
        _op("slice-axis-twice", "Slice", _THE, [0, 1], [4, 4], [1, 1], out=None, either=True),
        _op("slice-lengths-differ", "Slice", _THE, [0, 1], [4], [1], out=None),
        _op("split-sum", "Split", _THE, [3, 4], out=None, axis=1, results=2),
        _op("split-negative", "Split", _THE, [9, -1], out=None, axis=1, results=2),
        _op("split-axis-outside", "Split", _THE, [4, 4], out=None, axis=9, results=2),
        _op("concat-axis-outside", "Concat", _THE, _f("c", [[1]]), out=None, axis=5),
        _op("concat-ranks-differ", "Concat", _THE, _f("c", [1.0]), out=None, axis=0),
        _op("gather-outside", "Gather", _THE, [8], out=None, axis=1),
        _op("gather-of-floats", "Gather", _THE, _f("c", [1.0]), out=None, axis=1),
        _op("topk-negative", "TopK", _THE, [-1], out=None, results=2),
        _op("topk-beyond", "TopK", _THE, [9], out=None, results=2),
        _op("onehot-depth-negative", "OneHot", _THE, [-3], _f("v", [0, 1]), given=_INT64, out=None),
        _op("onehot-depth-2-to-40", "OneHot", _THE, [2**40], _f("v", [0, 1]), given=_INT64, out=None),
        _op("onehot-three-values", "OneHot", _THE, [3], _f("v", [0, 1, 2]), given=_INT64, out=None),
        _op("transpose-short", "Transpose", _THE, out=None, perm=[0]),
        _op("squeeze-of-8", "Squeeze", _THE, [1], out=None),
        _op("unsqueeze-twice", "Unsqueeze", _THE, [0, 0], out=None),
        _op("reduce-axis-outside", "ReduceMean", _THE, [7], out=None),
        _op("reduce-of-nothing", "ReduceMax", r"the_node|no elements|\bx\b", [1], shape=(1, 0), out=None, either=True),
        _op("softmax-axis-outside", "Softmax", _THE, axis=4),
        _op("softmax-of-nothing", "Softmax", r"the_node|no elements|\bx\b", shape=(1, 0), out=(1, 0), either=True),
        _op("matmul-of-nothing", "MatMul", r"the_node|no elements|\bx\b", _f("w", np.ones((0, 3))), shape=(2, 0), out=(2, 3), either=True),
        _op("matmul-unfit", "MatMul", _THE, _f("w", np.ones((9, 3))), out=None),
        _op("gemm-alpha-nan", "Gemm", _THE, _f("w", np.ones((8, 3))), out=(1, 3), alpha=float("nan"), either=True),
        _op("gemm-alpha-inf", "Gemm", _THE, _f("w", np.ones((8, 3))), out=(1, 3), alpha=float("inf"), either=True),
        _op("gemm-trans-5", "Gemm", _THE, _f("w", np.ones((3, 8))), out=(1, 3), transB=5, either=True),
        _op("einsum-nonsense", "Einsum", _THE, out=None, equation="->->ii,"),
        _op("einsum-unfit", "Einsum", _THE, _f("w", np.ones((9, 3))), out=None, equation="ij,jk->ik"),
        _op("einsum-of-60-letters", "Einsum", _THE, out=None, equation="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ->a"),
        _op("cast-to-0", "Cast", r"the_node|type", out=None, to=0),
        _op("cast-to-999", "Cast", r"the_node|999|type", out=None, to=999),
        _op("norm-lengths-differ", "BatchNormalization", _THE, _f("s", np.ones(4)), _f("b", np.ones(4)), _f("m", np.ones(3)), _f("v", np.ones(4)), shape=_IMAGE, out=None),
        _op("norm-negative-variance", "BatchNormalization", _THE, _f("s", np.ones(4)), _f("b", np.ones(4)), _f("m", np.ones(4)), _f("v", -np.ones(4)), shape=_IMAGE, out=None, either=True),
        _op("norm-epsilon-nan", "LayerNormalization", _THE, _f("s", np.ones(8)), epsilon=float("nan"), either=True),
        _op("norm-groups-3", "GroupNormalization", _THE, _f("s", np.ones(4)), _f("b", np.ones(4)), shape=_IMAGE, out=None, num_groups=3),
        _op("norm-groups-0", "GroupNormalization", _THE, _f("s", np.ones(4)), _f("b", np.ones(4)), shape=_IMAGE, out=None, num_groups=0),
        _op("lstm-hidden-0", "LSTM", _THE, _f("w", np.ones((1, 0, 4))), _f("r", np.ones((1, 0, 0))), shape=(3, 1, 4), out=None, hidden_size=0),
        _op("lstm-hidden-differs", "LSTM", _THE, _f("w", np.ones((1, 8, 4))), _f("r", np.ones((1, 8, 2))), shape=(3, 1, 4), out=None, hidden_size=5),
        _op("lstm-direction-unknown", "LSTM", r"the_node|direction", _f("w", np.ones((1, 8, 4))), _f("r", np.ones((1, 8, 2))), shape=(3, 1, 4), out=None, hidden_size=2, direction="sideways"),
        _op("lstm-activation-unknown", "LSTM", r"the_node|Nope", _f("w", np.ones((1, 8, 4))), _f("r", np.ones((1, 8, 2))), shape=(3, 1, 4), out=None, hidden_size=2, activations=["Nope", "Tanh", "Tanh"]),
        _op("lstm-length-beyond", "LSTM", _THE, _f("w", np.ones((1, 8, 4))), _f("r", np.ones((1, 8, 2))), None, constant("n", [9], "int32"), shape=(3, 1, 4), out=None, hidden_size=2),
        _op("lstm-clip-nan", "LSTM", _THE, _f("w", np.ones((1, 8, 4))), _f("r", np.ones((1, 8, 2))), shape=(3, 1, 4), out=None, hidden_size=2, clip=float("nan"), either=True),
        _op("quantize-scale-0", "QuantizeLinear", _THE, _f("s", 0.0), constant("z", 0, "int8"), result=_INT8, either=True),
        _op("quantize-scale-negative", "QuantizeLinear", _THE, _f("s", -0.5), constant("z", 0, "int8"), result=_INT8, either=True),
        _op("quantize-scale-tiny", "QuantizeLinear", _THE, _f("s", 1e-45), constant("z", 0, "int8"), result=_INT8, either=True),
        _op("quantize-point-of-another-shape", "QuantizeLinear", _THE, _f("s", np.ones(8)), constant("z", np.zeros(3), "int8"), result=_INT8, axis=1),
        _op("quantize-axis-outside", "QuantizeLinear", _THE, _f("s", np.ones(8)), constant("z", np.zeros(8), "int8"), result=_INT8, axis=7),
        _op("dequantize-scales-of-3", "DequantizeLinear", _THE, _f("s", np.ones(3)), given=_INT8, axis=1),
        _op("dequantize-block-0", "DequantizeLinear", _THE, _f("s", np.ones((1, 2))), given=_INT8, axis=1, block_size=3),
        _op("dequantize-block-negative", "DequantizeLinear", _THE, _f("s", np.ones((1, 2))), given=_INT8, axis=1, block_size=-4),
        _op("dft-length-negative", "DFT", _THE, [-4], shape=(1, 8, 1), out=None),
        _op("dft-length-2-to-40", "DFT", _THE, [2**40], shape=(1, 8, 1), out=None),
        _op("stft-step-0", "STFT", _THE, 0, None, 4, shape=(1, 8, 1), out=None),
        _op("stft-frame-beyond", "STFT", _THE, 2, None, 99, shape=(1, 8, 1), out=None),
        _op("attention-heads-3", "Attention", _THE, _f("w", np.ones((8, 24))), _f("b", np.ones(24)), shape=(1, 4, 8), out=None, domain="com.microsoft", num_heads=3),
        _op("matmulnbits-bits-3", "MatMulNBits", _THE, constant("w", np.ones((3, 1, 16)), "uint8"), _f("s", np.ones(3)), shape=(1, 32), out=(1, 3), domain="com.microsoft", K=32, N=3, bits=3, block_size=32, either=True),
        _op("matmulnbits-k-differs", "MatMulNBits", _THE, constant("w", np.ones((3, 1, 16)), "uint8"), _f("s", np.ones(3)), shape=(1, 32), out=(1, 3), domain="com.microsoft", K=40, N=3, bits=4, block_size=32),
        _op("matmulnbits-block-0", "MatMulNBits", _THE, constant("w", np.ones((3, 1, 16)), "uint8"), _f("s", np.ones(3)), shape=(1, 32), out=(1, 3), domain="com.microsoft", K=32, N=3, bits=4, block_size=0),
        _op("matmulnbits-scales-short", "MatMulNBits", _THE, constant("w", np.ones((3, 1, 16)), "uint8"), _f("s", np.ones(1)), shape=(1, 32), out=(1, 3), domain="com.microsoft", K=32, N=3, bits=4, block_size=32),
        _op("depth-to-space-0", "DepthToSpace", _THE, shape=_IMAGE, out=None, blocksize=0),
        _op("depth-to-space-3", "DepthToSpace", _THE, shape=_IMAGE, out=None, blocksize=3),
        _op("space-to-depth-negative", "SpaceToDepth", _THE, shape=_IMAGE, out=None, blocksize=-2),
        _op("trilu-far", "Trilu", _THE, constant("k", 2**62), shape=(4, 4), out=(4, 4), either=True),
        _op("cumsum-axis-outside", "CumSum", _THE, constant("k", 9)),
        _op("clip-upside-down", "Clip", _THE, _f("a", 5.0), _f("b", -5.0), either=True),
        _op("clip-nan", "Clip", _THE, _f("a", np.nan), either=True),
        _op("where-of-ints", "Where", _THE, _f("a", 1.0), _f("b", 2.0), given=_INT64, out=None),
        _op("shift-of-floats", "BitShift", _THE, _f("a", 1.0), direction="LEFT"),
        _op("tree-cycle", "TreeEnsembleRegressor", _THE, domain="ai.onnx.ml", out=(1, 1), n_targets=1, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 2, 0], target_treeids=[0], target_nodeids=[2], target_ids=[0], target_weights=[1.0]),
        _op("tree-lengths-differ", "TreeEnsembleRegressor", _THE, domain="ai.onnx.ml", out=(1, 1), n_targets=1, nodes_treeids=[0, 0], nodes_nodeids=[0], nodes_featureids=[0], nodes_values=[0.5], nodes_modes=["LEAF"], nodes_truenodeids=[0], nodes_falsenodeids=[0], target_treeids=[0], target_nodeids=[0], target_ids=[0], target_weights=[1.0]),
        _op("tree-feature-outside", "TreeEnsembleRegressor", _THE, domain="ai.onnx.ml", out=(1, 1), n_targets=1, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[99, 0, 0], nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0]),
        _op("tree-target-outside", "TreeEnsembleRegressor", _THE, domain="ai.onnx.ml", out=(1, 1), n_targets=1, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 7], target_weights=[1.0, 2.0]),
        _op("scaler-lengths-differ", "Scaler", _THE, domain="ai.onnx.ml", offset=[1.0, 2.0, 3.0], scale=[1.0] * 8),
        _op("labels-lengths-differ", "LabelEncoder", _THE, domain="ai.onnx.ml", given=_INT64, out=None, keys_int64s=[1, 2], values_floats=[1.0]),
    ],
    seconds=90,
)  # fmt: skip


def _model(
    what: str, says: str, make: Callable[[], onnx.ModelProto], *, either: bool = False
) -> tuple[object, ...]:
    more = {"exits": _EITHER, "writes": _PACKAGE} if either else {"exits": REFUSED}
    return what, _RUN, says, {"make": saved(make), **more}


def _value(name: str, kind: int = FLOAT, shape: Sequence[int] | None = (1, 8)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _graph(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    weights: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "inner", list(inputs), list(outputs), list(weights))


def _branch(
    name: str, kind: str = "Relu", shape: Sequence[int] | None = (1, 8), **more: Any
) -> onnx.GraphProto:
    return _graph([node(kind, ["x"], [name], name=f"{name}_node", **more)], [_value(name, shape=shape)])


def _if(
    then: onnx.GraphProto, other: onnx.GraphProto, condition: onnx.TensorProto | None = None, **more: Any
) -> onnx.ModelProto:
    chosen = condition or constant("c", True, "bool")
    weights = [chosen, *more.pop("weights", ())]
    return relu(
        [node("If", ["c"], ["y"], name="the_node", then_branch=then, else_branch=other)],
        weights=weights,
        **more,
    )


def _loop(
    body_inputs: Sequence[onnx.ValueInfoProto],
    body_outputs: Sequence[onnx.ValueInfoProto],
    nodes: Sequence[onnx.NodeProto],
    rounds: object = 3,
) -> onnx.ModelProto:
    body = _graph(nodes, body_outputs, body_inputs)
    return relu(
        [node("Loop", ["n", "", "x"], ["y"], name="the_node", body=body)], weights=[constant("n", rounds)]
    )


_I, _GO, _S = _value("i", _INT64, ()), _value("go", _BOOL, ()), _value("s")
_AGAIN, _NEXT = _value("again", _BOOL, ()), _value("next")
_BODY = [node("Identity", ["go"], ["again"], name="same"), node("Sin", ["s"], ["next"], name="sin")]


def _calls(*functions: onnx.FunctionProto, kind: str = "F", domain: str = "f") -> onnx.ModelProto:
    model = relu([node(kind, ["x"], ["y"], name="the_node", domain=domain)])
    model.functions.extend(functions)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def _function(
    name: str, nodes: Sequence[onnx.NodeProto], domain: str = "f", attributes: Sequence[str] = ()
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function(domain, name, ["a"], ["b"], list(nodes), opsets, list(attributes))


def _with_reference() -> onnx.ModelProto:
    leaky = node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="nope", type=onnx.AttributeProto.FLOAT)
    )
    return _calls(_function("F", [leaky]))


def _changed(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    change(model)
    return model


STRUCTURES = cases(
    "compile/branches",
    [
        _model("if-outputs-differ-in-number", _THE, lambda: _if(_branch("a"), _graph([node("Relu", ["x"], ["b"], "r"), node("Neg", ["x"], ["d"], "n")], [_value("b"), _value("d")])), either=True),
        _model("if-outputs-differ-in-shape", _THE, lambda: _if(_branch("a"), _branch("b", "ReduceMax", (1, 1)), constant("c", False, "bool")), either=True),
        _model("if-condition-is-float", _THE, lambda: _if(_branch("a"), _branch("b"), _f("c", 1.0)), either=True),
        _model("if-condition-of-two", _THE, lambda: _if(_branch("a"), _branch("b"), constant("c", [True, False], "bool")), either=True),
        _model("if-branch-is-outer-value", _THE, lambda: _if(_graph([], [_value("x")]), _branch("b")), either=True),
        _model("if-branch-of-a-weight", _THE, lambda: _if(_graph([], [_value("w")], weights=[_f("w", np.ones((1, 8)))]), _branch("b")), either=True),
        _model("if-branch-with-inputs", _THE, lambda: _if(_graph([node("Relu", ["q"], ["a"], "r")], [_value("a")], [_value("q")]), _branch("b"))),
        _model("if-branch-shadows", _THE, lambda: _if(_graph([node("Relu", ["x"], ["y"], "r")], [_value("y")]), _branch("b")), either=True),
        _model("if-branch-empty", r"'y'", lambda: _if(_graph([], []), _graph([], []))),
        _model("if-undefined-inside", r"nope", lambda: _if(_graph([node("Relu", ["nope"], ["a"], "r")], [_value("a")]), _branch("b"))),
        _model("if-unsupported-inside", r"Nope", lambda: _if(_branch("a", "Nope"), _branch("b"))),
        _model("if-cycle-inside", r"the_node|order", lambda: _if(_graph([node("Relu", ["q"], ["p"], "p1"), node("Relu", ["p"], ["q"], "p2")], [_value("p")]), _branch("b"))),
        _model("loop-body-of-one-input", _THE, lambda: _loop([_I], [_AGAIN, _NEXT], [node("Less", ["i", "i"], ["again"], "l"), node("Sin", ["x"], ["next"], "s")])),
        _model("loop-body-of-one-output", _THE, lambda: _loop([_I, _GO, _S], [_AGAIN], _BODY)),
        _model("loop-condition-is-float", _THE, lambda: _loop([_I, _GO, _S], [_NEXT, _NEXT], _BODY)),
        _model("loop-rounds-negative", _THE, lambda: _loop([_I, _GO, _S], [_AGAIN, _NEXT], _BODY, -5), either=True),
        _model("loop-rounds-0", _THE, lambda: _loop([_I, _GO, _S], [_AGAIN, _NEXT], _BODY, 0), either=True),
        _model("loop-rounds-of-two", _THE, lambda: _loop([_I, _GO, _S], [_AGAIN, _NEXT], _BODY, [3, 4]), either=True),
        _model("loop-state-grows", _THE, lambda: _loop([_I, _GO, _S], [_AGAIN, _value("next", shape=(1, 16))], [_BODY[0], node("Concat", ["s", "s"], ["next"], "grow", axis=1)]), either=True),
        _model("loop-state-changes-type", _THE, lambda: _loop([_I, _GO, _S], [_AGAIN, _value("next", _INT64)], [_BODY[0], node("Cast", ["s"], ["next"], "cast", to=_INT64)])),
        _model("function-of-two-in-a-circle", r"F|G", lambda: _calls(_function("F", [node("G", ["a"], ["b"], domain="f")]), _function("G", [node("F", ["a"], ["b"], domain="f")]))),
        _model("function-twice", r"\bF\b", lambda: _calls(_function("F", [node("Relu", ["a"], ["b"])]), _function("F", [node("Neg", ["a"], ["b"])])), either=True),
        _model("function-named-as-an-operator", r"Relu", lambda: _calls(_function("Relu", [node("Neg", ["a"], ["b"])], domain=""), kind="Relu", domain=""), either=True),
        _model("function-without-body", r"\bF\b", lambda: _calls(_function("F", [])), either=False),
        _model("function-attribute-unknown", r"nope|\bF\b|LeakyRelu", _with_reference, either=True),
        _model("function-of-more-inputs", r"\bF\b|the_node", lambda: _changed(_calls(_function("F", [node("Relu", ["a"], ["b"])])), lambda m: m.graph.node[0].input.append("x"))),
        _model("function-undefined", r"\bG\b", lambda: _calls(_function("F", [node("G", ["a"], ["b"], domain="f")]))),
        _model("weight-of-another-type-than-its-input", r"\bw\b", lambda: _changed(relu([node("Add", ["x", "w"], ["y"])], names=("x", "w"), weights=[constant("w", np.ones((1, 8)), "int32")]), lambda m: None)),
        _model("weight-of-another-shape-than-its-input", r"\bw\b|add", lambda: relu([node("Add", ["x", "w"], ["y"])], names=("x", "w"), weights=[_f("w", np.ones((3, 9)))])),
        _model("weight-is-an-outer-value-s-name", r"\bx\b", lambda: _if(_graph([node("Relu", ["x"], ["a"], "r")], [_value("a")], weights=[_f("x", np.ones((1, 8)))]), _branch("b")), either=True),
        _model("constant-without-value", _THE, lambda: relu([node("Constant", [], ["w"], "the_node"), node("Add", ["x", "w"], ["y"])])),
        _model("constant-of-two-values", _THE, lambda: relu([node("Constant", [], ["w"], "the_node", value_float=1.0, value_int=2), node("Add", ["x", "w"], ["y"])])),
        _model("fill-of-2-to-40", _THE, lambda: relu([node("ConstantOfShape", ["n"], ["w"], "the_node"), node("Add", ["x", "w"], ["y"])], weights=[constant("n", [2**40, 8])])),
        _model("fill-negative", _THE, lambda: relu([node("ConstantOfShape", ["n"], ["w"], "the_node"), node("Add", ["x", "w"], ["y"])], weights=[constant("n", [-1, 8])])),
        _model("range-delta-0", _THE, lambda: relu([node("Range", ["a", "b", "d"], ["w"], "the_node"), node("Add", ["x", "w"], ["y"])], weights=[constant("a", 0), constant("b", 8), constant("d", 0)])),
        _model("range-to-1e30", r"the_node|add", lambda: relu([node("Range", ["a", "b", "d"], ["w"], "the_node"), node("Add", ["x", "w"], ["y"])], weights=[_f("a", 0.0), _f("b", 1e30), _f("d", 1.0)])),
        _model("range-nan", r"the_node|add", lambda: relu([node("Range", ["a", "b", "d"], ["w"], "the_node"), node("Add", ["x", "w"], ["y"])], weights=[_f("a", 0.0), _f("b", np.nan), _f("d", 1.0)])),
        _model("dim-named-as-a-bound", r"n<=8|--shape", lambda: relu(shape=(1, "n<=8"))),
        _model("dim-named-with-nul", r"--shape", lambda: relu(shape=(1, "a\0b"))),
        _model("graph-name-of-a-megabyte", r"", lambda: _changed(relu(), lambda m: setattr(m.graph, "name", "g" * 2**20)), either=True),
        _model("graph-name-with-nul", r"", lambda: _changed(relu(), lambda m: setattr(m.graph, "name", "a\0b/../c")), either=True),
        _model("no-node-reads-the-input", r"", lambda: relu([node("Relu", ["w"], ["y"])], weights=[_f("w", np.ones((1, 8)))]), either=True),
        _model("outputs-of-weights-alone", r"", lambda: relu([], outputs=("w",), weights=[_f("w", np.ones((1, 8)))]), either=True),
    ],
    seconds=120,
)  # fmt: skip


CASES: tuple[Case, ...] = (*ATTRIBUTES, *STRUCTURES)
