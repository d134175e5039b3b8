# SPDX-License-Identifier: Apache-2.0
"""How tensors are quantised: the scales and zero points that are drawn, and the QDQ nodes that state them.

Scales are powers of two, where products end in exact ties; their neighbours, where they end next to one; decimal; and
any. Zero points are 0, odd, or at an end of the range.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.fuzz.builder import Draw
from tests.fuzz.graphs import Case

# Which input holds weights, and along which of their axes each output has a scale of its own.
WEIGHT_AXES = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": -1}
_STEPS = 255  # of 8 bits
STYLES = ("power of two", "decimal", "above a power of two", "below a power of two", "any")


@dataclass(frozen=True)
class Params:
    """How a tensor is quantised."""

    scale: np.float32
    zero_point: int
    dtype: str


@dataclass
class Quantizer:
    """Collects the nodes and constants of a float case's quantised form, and how its tensors are quantised."""

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
        # Of 16 bits few quantisers write a zero point, and TOSA has none.
        mostly = [middle] * (36 if self.dtype == "int16" else 1)
        near = self.draw(st.sampled_from([*mostly, middle + 3, middle - 7, int(info.min), int(info.max) - 1]))
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
