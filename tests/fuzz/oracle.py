# SPDX-License-Identifier: Apache-2.0
"""Whether outputs are right: floats near onnxruntime's, integers as the numerics `qdq` define them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from arm_ext.frontends.onnx.reference import run_onnxruntime
from tests.fuzz.describe import INDICES
from tests.fuzz.foreign import foreign_result, limit_of
from tests.fuzz.groups import Group, Per, Quantized, UndefinedError, attributes
from tests.fuzz.interpreter import evaluate

Array = npt.NDArray[Any]

# A few roundings to binary32 a node: of each result relative to its largest, and where results cancel, of the terms.
FLOAT_BOUND = 1e-5
CANCELLED_BOUND = 2.0**-20

UNCHECKED = "nothing, after a float that was rounded"
"""Among what outputs are held against: the float may have been a neighbour, and none of the outputs shows it."""


def check_float(model: onnx.ModelProto, inputs: Sequence[Array], outputs: Sequence[Array]) -> str | None:
    """What is wrong with the outputs of a float model, or None."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    inner = [n for node in model.graph.node if node.op_type not in INDICES for n in node.output]
    every.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in inner)
    count = len(outputs)
    values = run_onnxruntime(every.SerializeToString(), inputs, integers=False)
    largest = max(float(np.abs(value).max()) for value in values)
    if not np.isfinite(largest):
        raise UndefinedError("a value is not finite")
    for output, actual, expected in zip(model.graph.output, outputs, values[:count], strict=True):
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return f"{output.name} is {actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}"
        bound = max(FLOAT_BOUND * float(np.abs(expected).max()), CANCELLED_BOUND * largest)
        error = float(np.abs(actual - expected).max())
        if not error <= bound:
            return f"{output.name} is off by {error:.3g} (limit {bound:.3g})"
    return None


@dataclass
class _Graph:
    """A QDQ model as it is evaluated, group by group."""

    outputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    tensors: dict[str, Quantized | Array]
    producers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    dequantizers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    forms: Counter[str] = field(default_factory=Counter)

    def per(self, node: onnx.NodeProto, rank: int) -> Per:
        scales, zero_points = (self.constants[name] for name in node.input[1:3])
        if scales.ndim:
            shape = [-1 if axis == attributes(node).get("axis", 1) % rank else 1 for axis in range(rank)]
            scales, zero_points = scales.reshape(shape), zero_points.reshape(shape)
        return Per(scales, zero_points.astype(np.int64), zero_points.dtype.name)

    def dequantize(self, node: onnx.NodeProto) -> None:
        source = self.tensors[node.input[0]]
        q, certain = (source.q, source.certain) if isinstance(source, Quantized) else (source, True)
        self.tensors[node.output[0]] = Quantized(q, self.per(node, q.ndim), certain)
        self.dequantizers[node.output[0]] = node

    def group(self, output: str) -> Group:
        nodes: dict[str, onnx.NodeProto] = {}
        leaves: dict[str, Quantized | Array] = {}

        def visit(name: str) -> None:
            if name in self.tensors:
                leaves[name] = self.tensors[name]
            elif name and self.producers[name].name not in nodes:
                for operand in self.producers[name].input:
                    visit(operand)
                nodes[self.producers[name].name] = self.producers[name]

        visit(output)
        return Group(tuple(nodes.values()), output, leaves)

    def quantize(self, node: onnx.NodeProto) -> str | None:
        """Evaluate a group; returns what is wrong with the model's output for it, or with the definition."""
        y, name, group = self.per(node, 0), node.output[0], self.group(node.input[0])
        result = evaluate(group, y)
        certain = all(leaf.certain for leaf in group.quantized.values())
        form = result.form if result.exact else "in float"
        # In float, the last bit of a function decides between two neighbours.
        expected = [(result.q, form, 0 if result.exact else 1)]
        actual = self.outputs.get(name, result.q)
        limit = limit_of(group, y)
        if result.exact and limit is not None:
            read = [self.dequantizers[leaf] for leaf in group.quantized]
            theirs, integers = foreign_result(group, read, node, self.constants)
            expected.append((theirs, f"{form}, onnxruntime", limit if integers else 1))
        self.tensors[name] = Quantized(actual, y, name in self.outputs or (result.exact and certain))
        if not certain:
            self.forms[UNCHECKED] += 1
            return None
        self.forms.update(form for _, form, _ in expected)
        faults = (_difference(name, actual, *what) for what in expected)
        return next((fault for fault in faults if fault), None)


def check_quantized(
    model: onnx.ModelProto, inputs: Sequence[Array], outputs: Sequence[Array]
) -> tuple[str | None, Counter[str]]:
    """What is wrong with the outputs of a QDQ model whose graph outputs are quantised; and what they were held against.

    Groups are checked one by one: where a result is an output, its readers go on from the value at hand, so that a
    step that float arithmetic may be off is not counted again.
    """
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    given = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
    computed = dict(zip((value.name for value in model.graph.output), outputs, strict=True))
    g = _Graph(computed, constants, {**constants, **given})
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            fault = g.quantize(node)
            if fault:
                return fault, g.forms
        elif node.op_type == "DequantizeLinear":
            g.dequantize(node)
        else:
            g.producers |= dict.fromkeys(node.output, node)
    return None, g.forms


def _difference(name: str, actual: Array, expected: Array, form: str, limit: int) -> str | None:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{name} is {actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}"
    steps = np.abs(actual.astype(int) - expected.astype(int))
    wrong = np.count_nonzero(steps > limit)
    return (
        f"{name} ({form}) is off by {steps.max()} (limit {limit}) in {wrong} of {steps.size}"
        if wrong
        else None
    )
