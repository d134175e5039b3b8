# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors, and the groups of float nodes between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from arm_ext.frontends.onnx.reference import run_onnxruntime
from tests.fuzz.builder import make_model

Array = npt.NDArray[Any]
Bounds = tuple[float | None, float | None]


class UndefinedError(Exception):
    """A result is not a number, or not finite: nothing says what it is as an integer."""


@dataclass(frozen=True)
class Per:
    """How a tensor is quantised; scale and zero point may be one a channel, shaped to broadcast."""

    scales: Array
    zero_points: Array
    dtype: str

    @property
    def scale(self) -> float:
        return float(self.scales)

    @property
    def zero_point(self) -> int:
        return int(self.zero_points)


@dataclass(frozen=True)
class Quantized:
    """A tensor of integers and what they stand for.

    Attributes:
        q: The integers.
        per: What they stand for.
        certain: False where the compiled model may hold a neighbour: a float before it was rounded, and no output
            shows to which.
    """

    q: Array
    per: Per
    certain: bool = True

    @property
    def real(self) -> Array:
        centred = (self.q.astype(np.int64) - self.per.zero_points).astype(np.float32)
        return np.asarray(centred * self.per.scales.astype(np.float32), np.float32)

    @property
    def centred(self) -> Array:
        return np.asarray(self.q.astype(np.int64) - self.per.zero_points)


@dataclass(frozen=True)
class Group:
    """The float nodes between dequantised tensors and one result.

    Attributes:
        nodes: In order; the last makes the result.
        output: The result.
        leaves: What they read from outside: quantised tensors, and arrays for constants and float inputs.
    """

    nodes: tuple[onnx.NodeProto, ...]
    output: str
    leaves: Mapping[str, Quantized | Array]

    @property
    def quantized(self) -> dict[str, Quantized]:
        return {name: leaf for name, leaf in self.leaves.items() if isinstance(leaf, Quantized)}


@dataclass(frozen=True)
class Call:
    """One node with its operands."""

    node: onnx.NodeProto
    group: Group

    @property
    def attributes(self) -> dict[str, Any]:
        return attributes(self.node)

    def leaf(self, index: int) -> Quantized | Array | None:
        names = self.node.input
        return self.group.leaves.get(names[index]) if index < len(names) and names[index] else None

    def tensor(self, index: int) -> Quantized | None:
        found = self.leaf(index)
        return found if isinstance(found, Quantized) else None


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def in_float(group: Group) -> Array:
    """The group's result in float32, by onnxruntime without optimisation."""
    arrays = {
        name: leaf.real if isinstance(leaf, Quantized) else np.asarray(leaf)
        for name, leaf in group.leaves.items()
    }
    result = helper.make_tensor_value_info(group.output, onnx.TensorProto.FLOAT, None)
    model = make_model(group.nodes, [], [result], arrays)
    return run_onnxruntime(model.SerializeToString(), [], integers=False)[0]
