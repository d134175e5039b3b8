# SPDX-License-Identifier: Apache-2.0
"""The strategy for quantised graphs: a float one, with QDQ around its operators as quantisers write it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from arm_ext.frontends.onnx.reference import run_onnxruntime
from tests.fuzz.builder import Draw, make_model
from tests.fuzz.describe import INDICES
from tests.fuzz.graphs import QUANTIZED, Case, Kinds, Shape, any_shape, float_cases
from tests.fuzz.quantizer import WEIGHT_AXES, Quantizer
from tests.fuzz.step import Step

MOVES = {
    "Reshape",
    "Transpose",
    "Slice",
    "Split",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "MaxPool",
    "Resize",
    "Identity",
}
ABSORBED = {"Relu", "Clip"}
ABSORBING = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Sub", "Mul"}

DTYPES = ("int8", "uint8", "int8", "uint8", "int16")
NPU_DTYPES = (*["int8"] * 14, *["int16"] * 5, "uint8")
"""Of these, NPUs take nothing of uint8: it shows in what is rejected."""


@st.composite
def quantized_cases(
    draw: Draw,
    dtypes: Sequence[str] = DTYPES,
    kinds: Kinds = QUANTIZED,
    first: Step | None = None,
    shape: Shape = any_shape,
) -> Case:
    """A quantised graph. Values between units of its float form are quantised, those inside only perhaps."""
    case = draw(float_cases(kinds, most_steps=3, first=first, shape=shape))
    dtype = draw(st.sampled_from(dtypes))
    quantizer = Quantizer(draw, case, _largest(case), dtype)
    return _quantized(quantizer)


def _largest(case: Case) -> dict[str, float]:
    """The largest magnitude of each tensor of the float model, on the case's inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.output[:]
    names = [name for node in model.graph.node if node.op_type not in INDICES for name in node.output]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    values = run_onnxruntime(model.SerializeToString(), case.inputs, integers=False)
    found = {name: float(np.abs(value).max()) for name, value in zip(names, values, strict=True)}
    for value, array in zip(case.model.graph.input, case.inputs, strict=True):
        found[value.name] = float(np.abs(array).max())
    return found


def _quantized(z: Quantizer) -> Case:
    graph = z.case.model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    bare = _left_in_float(z)
    for value in graph.input:
        z.quantize(value.name, z.activation(value.name))
    for node in graph.node:
        _node(z, node, constants, bare)
        source = next((name for name in node.input if name in z.params), None)
        for name in node.output:
            if name not in bare:
                z.quantize(name, z.activation(name, source if node.op_type in MOVES else None))
    outputs = _outputs(z, [value.name for value in graph.output])
    inputs = list(graph.input)
    model = make_model(z.nodes, inputs, outputs, z.weights)
    model = onnx.shape_inference.infer_shapes(model)
    return replace(z.case, model=model, quantized=True)


def _left_in_float(z: Quantizer) -> set[str]:
    """The values that are not quantised: inside of units, or between an operator and what absorbs it."""
    nodes = {node.name: node for node in z.case.model.graph.node}
    outputs = {value.name for value in z.case.model.graph.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes.values():
        for name in node.input:
            readers.setdefault(name, []).append(node)
    bare = {name for node in nodes.values() if node.op_type in INDICES for name in node.output}
    for unit in z.case.units:
        whole = len(unit.nodes) > 1 and z.draw(st.booleans())
        inside = set(unit.nodes)
        for node in (nodes[name] for name in unit.nodes):
            for name in node.output:
                following = readers.get(name, [])
                if name in outputs or not following:
                    continue
                absorbed = (
                    len(following) == 1 and following[0].op_type in ABSORBED and node.op_type in ABSORBING
                )
                if (whole and all(n.name in inside for n in following)) or (
                    absorbed and z.draw(st.booleans())
                ):
                    bare.add(name)
    return bare


def _node(z: Quantizer, node: onnx.NodeProto, constants: dict[str, np.ndarray], bare: set[str]) -> None:
    """Copy a float node, its operands dequantised and its weights quantised."""
    new = onnx.NodeProto()
    new.CopyFrom(node)
    unit: np.ndarray | None = None
    for index, name in enumerate(node.input):
        if not name:
            continue
        if name not in constants:
            if name in z.params:
                new.input[index] = z.dequantize(name, f"{node.name}_{index}")
        elif index == 1 and node.op_type in WEIGHT_AXES:
            new.input[index], scale = z.weight(node, name, constants[name])
            data = z.params.get(node.input[0])
            unit = None if data is None else np.asarray(data.scale * scale, np.float32)
        elif index == 2 and unit is not None and constants[name].ndim == 1:
            new.input[index] = z.bias(name, constants[name], unit)
        else:
            z.add(name, constants[name])
    z.nodes.append(new)


def _outputs(z: Quantizer, names: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """The graph's outputs: quantised values; all of them, or those of the float graph."""
    if z.draw(st.booleans()):
        names = [name for name in z.params if not any(x.name == name for x in z.case.model.graph.input)]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(z.dtype))
    return [helper.make_tensor_value_info(f"{name}_q", kind, None) for name in names]
