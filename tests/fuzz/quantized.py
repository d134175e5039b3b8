# SPDX-License-Identifier: Apache-2.0
"""The strategy for quantised graphs: a float one, with QDQ around its operators as quantisers write it.

Scales are powers of two, where products end in exact ties; their neighbours, where they end next to one; decimal; and
any. Zero points are 0, odd, or at an end of the range.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from arm_ext.frontends.onnx_reference import run_onnxruntime
from tests.fuzz.builder import Draw, make_model
from tests.fuzz.describe import INDICES
from tests.fuzz.graphs import QUANTIZED, Case, float_cases

# Which input holds weights, and along which of their axes each output has a scale of its own.
WEIGHT_AXES = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": -1}
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
_STEPS = 255  # of 8 bits
STYLES = ("power of two", "decimal", "above a power of two", "below a power of two", "any")


@dataclass(frozen=True)
class Params:
    """How a tensor is quantised."""

    scale: np.float32
    zero_point: int
    dtype: str


@dataclass
class _Quantizer:
    draw: Draw
    case: Case
    largest: dict[str, float]
    dtype: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    params: dict[str, Params] = field(default_factory=dict)

    def scale(self, largest: float) -> np.float32:
        """A scale that takes most of the range, or more than all of it."""
        fit = 2 * max(largest, 1e-3) / _STEPS * self.draw(st.sampled_from([1.0, 0.5, 2.0]))
        style = self.draw(st.sampled_from(STYLES))
        power = np.float32(2.0 ** np.round(np.log2(fit)))
        digits = -int(np.floor(np.log10(fit)))
        styles: dict[str, np.float32] = {
            "power of two": power,
            "decimal": np.float32(max(round(fit, digits), 10.0**-digits)),
            "above a power of two": np.nextafter(power, np.float32(np.inf)),
            "below a power of two": np.nextafter(power, np.float32(0)),
            "any": np.float32(fit),
        }
        return styles[style]

    def activation(self, tensor: str, like: str | None = None) -> Params:
        """Draw how a tensor is quantised; `like` names one that it may share its scale with."""
        if like in self.params and self.draw(st.sampled_from([True, True, False])):
            return self.params[like]
        info = np.iinfo(self.dtype)
        middle = (int(info.min) + int(info.max) + 1) // 2
        near = self.draw(st.sampled_from([middle, middle + 3, middle - 7, int(info.min), int(info.max) - 1]))
        steps = int(info.max) - int(info.min)
        return Params(self.scale(self.largest[tensor] * _STEPS / steps), near, self.dtype)

    def add(self, name: str, array: np.ndarray) -> str:
        self.weights[name] = array
        return name

    def _constants(self, name: str, params: Params) -> list[str]:
        scale = self.add(f"{name}_s", np.asarray(params.scale))
        return [scale, self.add(f"{name}_z", np.array(params.zero_point, params.dtype))]

    def quantize(self, tensor: str, params: Params) -> None:
        self.params[tensor] = params
        constants = self._constants(tensor, params)
        self.nodes.append(
            helper.make_node("QuantizeLinear", [tensor, *constants], [f"{tensor}_q"], name=f"{tensor}/q")
        )

    def dequantize(self, tensor: str, reader: str) -> str:
        """A dequantised tensor for one reader."""
        out = f"{tensor}_for_{reader}"
        constants = [f"{tensor}_s", f"{tensor}_z"]
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{tensor}_q", *constants], [out], name=out))
        return out

    def constant(self, name: str, q: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int) -> str:
        """An integer constant under dequantize."""
        parts = {
            f"{name}_q": q,
            f"{name}_s": scale.astype(np.float32),
            f"{name}_z": zero_point.astype(q.dtype),
        }
        inputs = [self.add(key, value) for key, value in parts.items()]
        attributes = {"axis": axis} if scale.ndim else {}
        self.nodes.append(
            helper.make_node("DequantizeLinear", inputs, [f"{name}_d"], name=f"{name}/dq", **attributes)
        )
        return f"{name}_d"

    def weight(self, node: onnx.NodeProto, name: str, values: np.ndarray) -> tuple[str, np.ndarray]:
        """Quantise a weight; returns its dequantised name, and its scale or scales."""
        axis = WEIGHT_AXES[node.op_type]
        if node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute):
            axis = 0
        axis %= values.ndim
        grouped = node.op_type == "ConvTranspose" and any(
            a.name == "group" and a.i > 1 for a in node.attribute
        )
        per_channel = values.shape[axis] > 1 and not grouped and self.draw(st.booleans())
        others = tuple(a for a in range(values.ndim) if a != axis)
        largest = np.abs(values).max(others) if per_channel else np.abs(values).max()
        base = self.scale(float(np.max(largest)))
        # Each channel has a scale of its own, of the same style.
        steps = np.exp2(-np.floor(np.log2(np.max(largest) / np.maximum(largest, 1e-6))).clip(0, 4))
        scale = np.asarray(base * steps, np.float32)
        unsigned = self.dtype == "uint8" and not per_channel and self.draw(st.booleans())
        zero = self.draw(st.sampled_from([128, 131])) if unsigned else 0
        low, high = (0, 255) if unsigned else (-127, 127)
        shaped = scale.reshape([-1 if a == axis else 1 for a in range(values.ndim)]) if per_channel else scale
        q = np.clip(np.rint(values / shaped) + zero, low, high).astype(np.uint8 if unsigned else np.int8)
        return self.constant(name, q, scale, np.full(scale.shape, zero), axis), scale

    def bias(self, name: str, values: np.ndarray, unit: np.ndarray) -> str:
        """An int32 bias in units of the accumulator."""
        unit = np.asarray(unit, np.float32)
        q = np.rint(values / unit).astype(np.int32)
        if values.shape != unit.shape and unit.ndim:
            unit, q = unit[:1], q[:1]  # one for all
        return self.constant(name, q, unit, np.zeros(unit.shape, np.int32), 0)


DTYPES = ("int8", "uint8", "int8", "uint8", "int16")
NPU_DTYPES = (*["int8"] * 18, "uint8", "int16")
"""Others than int8 stay on the CPU."""


@st.composite
def quantized_cases(draw: Draw, dtypes: Sequence[str] = DTYPES) -> Case:
    """A quantised graph. Values between units of its float form are quantised, those inside only perhaps."""
    case = draw(float_cases(QUANTIZED, most_steps=3))
    dtype = draw(st.sampled_from(dtypes))
    quantizer = _Quantizer(draw, case, _largest(case), dtype)
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


def _quantized(z: _Quantizer) -> Case:
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


def _left_in_float(z: _Quantizer) -> set[str]:
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


def _node(z: _Quantizer, node: onnx.NodeProto, constants: dict[str, np.ndarray], bare: set[str]) -> None:
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


def _outputs(z: _Quantizer, names: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """The graph's outputs: quantised values; all of them, or those of the float graph."""
    if z.draw(st.booleans()):
        names = [name for name in z.params if not any(x.name == name for x in z.case.model.graph.input)]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(z.dtype))
    return [helper.make_tensor_value_info(f"{name}_q", kind, None) for name in names]
