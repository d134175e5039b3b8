# SPDX-License-Identifier: Apache-2.0
"""Layers of a QDQ model, matched with tensors of the float model from which it was quantised.

    source      x ─ Conv ─ Relu ─ y
    quantised   x ─ Q ─ DQ ─ Conv ─ Q ─ DQ ─ y'        a layer: y' stands for y, and Conv and Relu are its nodes

Nodes in binary16 between two casts are of the layer whose value in float32 or integers they compute.

A value and what QuantizeLinear and DequantizeLinear make of it are one value. It is matched by the name of any of its
tensors, else by the name of the node that computes it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto

from arm_ext.frontends.onnx.def_use import DefUse
from arm_ext.frontends.onnx.quantized import by_element
from arm_ext.frontends.onnx.values import values_read

Array = npt.NDArray[Any]

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"

RESCALED, CORRECTED = "arm_ext.rescaled", "arm_ext.corrected"
"""Notes in a model's metadata: tensors whose channels were rescaled, and nodes whose biases were corrected."""

# A layer is named after its operator of one of these types, if it has one.
ANCHORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# Activations that a quantiser fuses into the preceding operator; such a layer still has the source's weights.
_ACTIVATIONS = ("Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh")
# These operators move elements, and with equal input and output parameters the stored integers stay the same. fmt:
# off
_MOVES = frozenset(
    {
        "DepthToSpace",
        "Flatten",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
# fmt: on


@dataclass(frozen=True)
class QuantizerConstants:
    """Constant parameters of a QuantizeLinear or DequantizeLinear.

    Attributes:
        scale: One scale, or one per channel along `axis`, or an array with one per block along `axis`.
        zero_point: Zero points, in the shape of `scale`.
        axis: Axis along which scales differ, if there are several.
        block: Number of elements along `axis` that share a scale; 0 without blocks.
    """

    scale: Array
    zero_point: Array
    axis: int = 1
    block: int = 0

    @property
    def limits(self) -> tuple[float, float]:
        """The minimum and maximum that a tensor with one scale can represent."""
        info = np.iinfo(self.zero_point.dtype)
        step, zero = float(self.scale.flat[0]), int(self.zero_point.flat[0])
        return (info.min - zero) * step, (info.max - zero) * step

    @property
    def levels(self) -> int:
        """Number of values that an element can have."""
        return 1 << self.bits

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return int(ml_dtypes.iinfo(self.zero_point.dtype).bits)

    def equals(self, other: "QuantizerConstants | None") -> bool:
        """Whether this and `other` each have one scale and zero point, and these are equal."""
        return (
            other is not None
            and self.scale.size == other.scale.size == 1
            and self.scale.flat[0] == other.scale.flat[0]
            and self.zero_point.flat[0] == other.zero_point.flat[0]
        )

    def dequantize(self, integers: Array) -> Array:
        """Return floats as DequantizeLinear computes them."""
        scale, zero = self.by_element(integers.shape)
        return np.asarray((integers.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale)

    def by_element(self, shape: Sequence[int]) -> tuple[Array, Array]:
        """Return scale and zero point in shapes that broadcast to an array's shape."""
        rank = max(len(shape), 1)
        if self.block:
            pair = (self.scale, self.zero_point)
            one, other = (by_element(v, self.block, self.axis, shape[self.axis]) for v in pair)
            return one, other
        axes = [-1 if axis == self.axis % rank else 1 for axis in range(len(shape))]
        one, other = (v.reshape(axes) if v.size > 1 else v.reshape(()) for v in (self.scale, self.zero_point))
        return one, other


@dataclass(frozen=True)
class Constant:
    """A quantised weight or bias, and the source's float array from which it was quantised."""

    role: str
    value: Array
    source: Array
    quantizer: QuantizerConstants


@dataclass(frozen=True)
class WeightedReader:
    """A matrix product or convolution of the source model that multiplies a layer's tensor by constant weights.

    Attributes:
        name: Name of the node.
        axis: Axis of the channels in the tensor.
        power: Sum of the squares of the weights of each channel.
    """

    name: str
    axis: int
    power: Array


@dataclass(frozen=True)
class QdqLayer:
    """A tensor of a QDQ model, with the tensor of the source model that it approximates.

    Attributes:
        name: Name of the source node that the layer is named after, or of the model's input.
        operator: Operator of that node; "input" for an input.
        reader: Node that reads the value, if the value is quantised several times for different readers; else
            "".
        nodes: Source nodes that compute the tensor from those of earlier layers.
        source: Name of the tensor in the source model.
        root: Tensor of the QDQ model before it is quantised.
        value: Tensor of the QDQ model in float, as later nodes read it.
        integers: Tensor of the QDQ model that `value` is dequantised from, or None if the layer is in float.
        quantizer: Parameters of the QuantizeLinear; None for a float layer, or one whose integers are
            computed directly.
        dequantizer: Parameters of the DequantizeLinear that computes `value`.
        constants: Weights and biases that were quantised.
        moved: Whether the integers are those of the layer before, reordered or a part of them.
        readers: Products that read the tensor, all along one axis of channels.
    """

    name: str
    operator: str
    reader: str
    nodes: tuple[str, ...]
    source: str
    root: str
    value: str
    integers: str | None = None
    quantizer: QuantizerConstants | None = None
    dequantizer: QuantizerConstants | None = None
    constants: tuple[Constant, ...] = ()
    moved: bool = False
    readers: tuple[WeightedReader, ...] = ()


class QdqGraph(DefUse):
    """The values of an ONNX model, with their quantisation parameters.

    Attributes:
        proto: The model, its nodes in topological order and with names.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        super().__init__(proto.graph)
        self.proto = proto

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs that a caller provides."""
        return [value.name for value in self.proto.graph.input if value.name not in self.constants]

    @property
    def tensors(self) -> set[str]:
        """Return the tensors whose values depend on the inputs."""
        return {*self.inputs, *self.producers} - self.fixed

    def quantizer(self, node: NodeProto) -> QuantizerConstants | None:
        """Return the parameters of a QuantizeLinear or DequantizeLinear; None if they are not constant."""
        scale = self.constants.get(node.input[1])
        if scale is None:
            return None
        axis, block = int(attribute(node, "axis", 1)), int(attribute(node, "block_size", 0))
        if len(node.input) < 3 or not node.input[2]:
            integers = self.constants.get(node.input[0]) if node.op_type == DEQUANTIZE else None
            dtype = np.dtype(np.uint8) if integers is None else integers.dtype
            return QuantizerConstants(scale, np.zeros(scale.shape, dtype), axis, block)
        zero = self.constants.get(node.input[2])
        return None if zero is None else QuantizerConstants(scale, zero, axis, block)

    def between(self, tensor: str, known: set[str]) -> list[NodeProto]:
        """Return the nodes that compute a tensor from known ones, in the graph's order, without constants."""
        found: set[str] = set()
        todo = [tensor]
        while todo:
            node = self.producers.get(todo.pop())
            if node is None or node.name in found or self.fixed.issuperset(node.output):
                continue
            found.add(node.name)
            todo += [name for name in values_read(node) if name not in known]
        return [node for node in self.proto.graph.node if node.name in found]


def note(model: onnx.ModelProto, key: str, names: Iterable[str]) -> None:
    """Write names into a model's metadata."""
    model.metadata_props.add(key=key, value=json.dumps(list(names)))


def noted(model: onnx.ModelProto, key: str) -> frozenset[str]:
    """Return the names that `note` has written; an empty set if there are none."""
    found = next((each.value for each in model.metadata_props if each.key == key), "[]")
    try:
        names = json.loads(found)
    except ValueError:  # other programs may also have written this metadata
        return frozenset()
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    )


def attribute(node: NodeProto, name: str, default: float) -> float:
    """Return a numeric attribute of a node."""
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


class Matching:
    """The layers of a QDQ model, named after the nodes of its source.

    Attributes:
        source: Graph of the float model.
        quantized: Graph of the QDQ model.
        layers: Layers in execution order.
        roots: Tensor of the QDQ model → the tensor before it was quantised, of all that are quantised or dequantised.
        meaning: Root → tensor of the source.
    """

    def __init__(self, source: onnx.ModelProto, quantized: onnx.ModelProto) -> None:
        """Match two models, whose nodes have names."""
        self.source, self.quantized = QdqGraph(source), QdqGraph(quantized)
        self.roots: dict[str, str] = {name: name for name in self.quantized.inputs}
        for node in quantized.graph.node:
            passes = node.op_type in (QUANTIZE, DEQUANTIZE)
            for name in node.output:
                self.roots[name] = self.roots.get(node.input[0], name) if passes else name
        # Rescaled values and corrected biases differ from the source's on purpose, so the difference is not an
        # error.
        rescaled = noted(quantized, RESCALED) - noted(source, RESCALED)
        self._corrected = noted(quantized, CORRECTED)
        members: dict[str, list[str]] = defaultdict(list)
        for name, root in self.roots.items():
            if name not in self.quantized.fixed:
                members[root].append(name)
        known, halves = self.source.tensors, _halves(self.quantized)
        self.meaning = {
            root: found
            for root, names in members.items()
            if root not in halves
            and not self._is_inner(root)
            and (found := self._matched(root, names, known))
            and found not in rescaled
        }
        self.layers = [
            layer
            for root, names in members.items()
            if root in self.meaning
            for layer in self._layers(root, names)
        ]

    def without(self, tensors: Iterable[str]) -> None:
        """Leave out the layers that approximate these tensors of the source."""
        left = set(tensors)
        self.meaning = {root: tensor for root, tensor in self.meaning.items() if tensor not in left}
        self.layers = [layer for layer in self.layers if layer.source not in left]

    def uncovered(self) -> list[NodeProto]:
        """Return the nodes of the source that belong to no layer."""
        covered = {name for layer in self.layers for name in layer.nodes}
        nodes = self.source.proto.graph.node
        return [n for n in nodes if n.name not in covered and not self.source.fixed.issuperset(n.output)]

    def _is_inner(self, root: str) -> bool:
        """Whether a tensor is a product's result before quantisation, which only its fused activation reads."""
        node, readers = self.quantized.producers.get(root), self.quantized.readers.get(root, [])
        if node is None or node.op_type not in ANCHORS or len(readers) != 1 or self._is_output(root):
            return False
        operands = [self.quantized.producers.get(name) for name in node.input[:2]]
        if any(each is None or each.op_type != DEQUANTIZE for each in operands):
            return False
        after = self.quantized.readers.get(readers[0].output[0], [])
        return readers[0].op_type in _ACTIVATIONS and [n.op_type for n in after] == [QUANTIZE]

    def _is_output(self, tensor: str) -> bool:
        return any(value.name == tensor for value in self.quantized.proto.graph.output)

    def _matched(self, root: str, names: list[str], known: set[str]) -> str | None:
        by_name = next((name for name in names if name in known), None)
        node = self.quantized.producers.get(root)
        if by_name is not None or node is None:
            return by_name
        twin = next((n for n in self.source.proto.graph.node if n.name == node.name), None)
        if twin is None or twin.op_type != node.op_type or len(twin.output) != 1:
            return None
        return self._with_activation(twin.output[0])

    def _with_activation(self, tensor: str) -> str:
        """Return the output of the activation that the quantiser fused into a tensor's producer.

        Else the tensor itself.
        """
        readers = self.source.readers.get(tensor, [])
        absorbed = (
            len(readers) == 1
            and readers[0].op_type in _ACTIVATIONS
            and not any(node.name == readers[0].name for node in self.quantized.proto.graph.node)
        )
        return readers[0].output[0] if absorbed else tensor

    def _layers(self, root: str, names: list[str]) -> Iterator[QdqLayer]:
        found = [
            node
            for name in names
            if (node := self.quantized.producers.get(name)) is not None and node.op_type == DEQUANTIZE
        ]
        tensor = self.meaning[root]
        nodes = self.source.between(tensor, set(self.meaning.values()) - {tensor})
        anchor = _anchor(nodes)
        name, operator = (anchor.name, anchor.op_type) if anchor is not None else (tensor, "input")
        inner, constants = tuple(node.name for node in nodes), self._constants(root, anchor, nodes)
        if not found and root in self.quantized.producers:
            yield QdqLayer(name, operator, "", inner, tensor, root, root, constants=constants)
        seen: set[tuple[object, ...]] = set()
        for node in found:
            integers, value = node.input[0], node.output[0]
            before = self.quantized.producers.get(integers)
            into = (
                self.quantized.quantizer(before)
                if before is not None and before.op_type == QUANTIZE
                else None
            )
            outof = self.quantized.quantizer(node)
            # Equal pairs of QuantizeLinear and DequantizeLinear, one for each reader, count as one pair.
            held = [v.tobytes() for each in (into, outof) if each for v in (each.scale, each.zero_point)]
            key = integers if into is None or before is None else before.input[0], *held
            if key in seen or outof is None or outof.scale.size > 1:
                continue
            reader = next((n.name for n in self.quantized.readers.get(value, [])), "") if seen else ""
            seen.add(key)
            yield QdqLayer(
                name,
                operator,
                reader,
                inner,
                tensor,
                root,
                value,
                integers,
                into,
                outof,
                constants,
                self._moved(root, into),
                self._readers(tensor),
            )

    def _moved(self, root: str, into: QuantizerConstants | None) -> bool:
        node = self.quantized.producers.get(root)
        before = None if node is None else self.quantized.producers.get(node.input[0])
        if node is None or before is None or node.op_type not in _MOVES or before.op_type != DEQUANTIZE:
            return False
        return into is not None and into.equals(self.quantized.quantizer(before))

    def _readers(self, tensor: str) -> tuple[WeightedReader, ...]:
        """Return the products that multiply a tensor of the source by constant weights."""
        found = []
        for node in self.source.readers.get(tensor, []):
            weights = self.source.constants.get(node.input[1]) if node.op_type in ANCHORS else None
            if weights is not None and weights.ndim > 1 and node.input[0] == tensor:
                axis = 1 if node.op_type in ("Conv", "ConvTranspose") else -1
                found.append(WeightedReader(node.name, axis, _channel_power(node, weights)))
        return tuple(reader for reader in found if reader.axis == found[0].axis)

    def _constants(self, root: str, anchor: NodeProto | None, nodes: list[NodeProto]) -> tuple[Constant, ...]:
        """Return the quantised weights and bias of a layer, each with the source's constant.

        Return () if the layer has operators other than one convolution or product and activations.
        """
        if (
            anchor is None
            or anchor.op_type not in ANCHORS
            or any(n is not anchor and n.op_type not in _ACTIVATIONS for n in nodes)
        ):
            return ()
        twins = self.quantized.between(root, {name for name, of in self.roots.items() if of != root})
        twin = next((n for n in twins if n.op_type == anchor.op_type), None)
        if twin is None or len(twin.input) != len(anchor.input):
            return ()
        pairs = zip(twin.input, anchor.input, ("weights", "weights", "bias"), strict=False)
        found = (
            self._constant(*pair) for pair in pairs if pair[2] != "bias" or anchor.name not in self._corrected
        )
        return tuple(constant for constant in found if constant is not None)

    def _constant(self, quantized: str, source: str, role: str) -> Constant | None:
        node, original = self.quantized.producers.get(quantized), self.source.constants.get(source)
        if node is None or node.op_type != DEQUANTIZE or original is None:
            return None
        integers, quantizer = self.quantized.constants.get(node.input[0]), self.quantized.quantizer(node)
        if integers is None or quantizer is None or integers.shape != original.shape:
            return None
        return Constant(role, quantizer.dequantize(integers), original, quantizer)


def input_channel_power(weights: Array, groups: int = 1) -> Array:
    """Return, for each input channel, the sum of squares of weights [outputs, inputs / groups, ...]."""
    squares = weights.astype(np.float64) ** 2
    grouped = squares.reshape(groups, squares.shape[0] // groups, squares.shape[1], -1)
    return np.asarray(grouped.sum((1, 3)).reshape(-1))


def _channel_power(node: NodeProto, weights: Array) -> Array:
    """Return, for each input channel, the sum of squares of a product's weights."""
    if node.op_type == "Conv":
        return input_channel_power(weights, int(attribute(node, "group", 1)))
    last = weights.ndim - 1
    along = 0 if node.op_type == "ConvTranspose" else last if attribute(node, "transB", 0) else last - 1
    return input_channel_power(np.moveaxis(weights, along, 0)[None])


def _halves(graph: QdqGraph) -> set[str]:
    """Return the names of the binary16 tensors."""
    found = {name for name, value in graph.constants.items() if value.dtype == np.float16}
    for node in graph.proto.graph.node:
        if node.op_type == "Cast":
            is_half = attribute(node, "to", 0) == onnx.TensorProto.FLOAT16
        else:
            is_half = node.op_type not in (QUANTIZE, DEQUANTIZE) and not found.isdisjoint(node.input)
        if is_half:
            found.update(node.output)
    return found


def _anchor(nodes: list[NodeProto]) -> NodeProto | None:
    """Return the node after which a layer is named: a product, else a node other than an activation, else its last."""
    for kind in (ANCHORS, {node.op_type for node in nodes} - set(_ACTIVATIONS)):
        if found := [node for node in nodes if node.op_type in kind]:
            return found[-1]
    return nodes[-1] if nodes else None


def with_outputs(model: onnx.ModelProto, tensors: Iterable[str]) -> onnx.ModelProto:
    """Return a copy of a model with further tensors as outputs, after its own."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    own = {value.name for value in copy.graph.output}
    new = (name for name in dict.fromkeys(tensors) if name not in own)
    # Without types; runtimes infer them.
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in new)
    return copy


def with_exact_inputs(matching: Matching) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Return the QDQ model with each layer fed by the source's values, and new input → tensor of the source.

    What reads a layer reads a new input in its place; only QuantizeLinear of the value itself still reads it.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(matching.quantized.proto)
    given = set(matching.quantized.inputs)
    exact: dict[str, str] = {}
    floats = {layer.root for layer in matching.layers} | {layer.value for layer in matching.layers}
    for node in copy.graph.node:
        for position, name in enumerate(node.input):
            root = matching.roots.get(name, "")
            if root not in matching.meaning or (name == root and node.op_type == QUANTIZE):
                continue
            dequantized = matching.quantized.producers.get(name)
            if name not in floats and (dequantized is None or dequantized.op_type != DEQUANTIZE):
                continue  # integers
            new = root if root in given else f"{root}/exact"
            node.input[position] = new
            if root not in given:
                exact[new] = matching.meaning[root]
    copy.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in exact
    )
    copy.graph.output.clear()
    return with_outputs(copy, (layer.value for layer in matching.layers)), exact
