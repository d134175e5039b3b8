# SPDX-License-Identifier: Apache-2.0
"""Changes of an ONNX model whose gain is measured by building the changed model.

hard_swish: x * Sigmoid(x) → x * HardSigmoid(x), which changes the results, so that the model must be trained again.
padded_channels: Conv → … → Conv with more channels, almost zero, to fill the kernel's tile; the results stay the same.

See also `onnx_movement` and `onnx_sizes`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from arm_ext.frontends.onnx.def_use import DefUse

Array = npt.NDArray[np.float32]

TILES = (16, 8, 4)
"""Channels that kernels compute together: four vectors of float32, two, and one."""

# Largest share of added channels: with more, they cost more than full tiles save.
_MOST_MORE = 0.25

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators with weights."""

_ALMOST_ZERO = 2.0**-60
"""Weights so small that adding the product of two of them changes no float32 sum, unless that is as small."""

# Operators between two convolutions that map zeros to zeros and do not depend on the number of channels.
_KEEP_ZEROS = ("Relu", "LeakyRelu", "HardSwish", "Tanh", "MaxPool", "AveragePool", "GlobalAveragePool")


@dataclass(frozen=True)
class Changed:
    """A changed model.

    Attributes:
        model: The changed copy of the model.
        sources: Names of the nodes that differ from the original model's.
        what: Description of the change, such as "24 → 32 channels".
        inputs: Input name → the permutation of axes that makes the changed model's input of the original one's.
        outputs: Output name → the permutation of axes that makes the original model's output of the changed one's.
        comparable: Whether the outputs stand for those of the original model, so that their error means something.
    """

    model: onnx.ModelProto
    sources: tuple[str, ...]
    what: str
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    comparable: bool = True


def hard_swish(model: onnx.ModelProto) -> Changed | None:
    """Return the model with hard-swish in the place of each SiLU; None if it has none.

    Args:
        model: The model; each of its nodes has a name.
    """
    copy = copied(model)
    graph = Graph(copy.graph)
    sources: list[str] = []
    for node in copy.graph.node:
        consumers = graph.consumers(node.output[0]) if node.op_type == "Sigmoid" else []
        if len(consumers) == 1 and consumers[0].op_type == "Mul" and node.input[0] in consumers[0].input:
            sources += [node.name, consumers[0].name]
            node.op_type = "HardSigmoid"
            node.attribute.extend([helper.make_attribute("alpha", 1 / 6), helper.make_attribute("beta", 0.5)])
    return Changed(copy, tuple(sources), f"{len(sources) // 2} SiLU → hard-swish") if sources else None


def padded_channels(model: onnx.ModelProto, convolutions: Sequence[str]) -> Changed | None:
    """Return the model with more output channels of some convolutions, so that they fill a tile.

    The new weights are almost zero, since compilation would remove channels of zeros.

    Args:
        model: A model whose nodes all have names.
        convolutions: Names of the convolutions. One is skipped if a consumer of its result does not allow more
            channels.
    """
    copy = copied(model)
    graph = Graph(copy.graph)
    padded: dict[str, str] = {}
    for node in list(copy.graph.node):
        if node.name not in convolutions or node.op_type != "Conv":
            continue
        weights = graph.constant(node.input[1])
        wanted = full_tile(weights.shape[0]) if weights is not None else None
        chain = graph.chain(node) if wanted else None
        if weights is not None and wanted and chain is not None:
            graph.pad(node, chain, wanted - weights.shape[0])
            padded[node.name] = f"{weights.shape[0]} → {wanted}"
    if not padded:
        return None
    del copy.graph.value_info[:]  # inferred shapes, some of which have changed
    counts = Counter(padded.values()).most_common()
    what = ", ".join(f"{change} channels ({count})" for change, count in counts)
    return Changed(copy, tuple(padded), what)


def full_tile(channels: int) -> int | None:
    """Return the next number of channels that fills a tile; None if channels fill one, or too many would be added."""
    for tile in TILES:
        wanted = math.ceil(channels / tile) * tile
        if channels < wanted <= channels * (1 + _MOST_MORE):
            return wanted
        if wanted == channels:
            return None
    return None


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


class Graph(DefUse):
    """The values of a graph, and changes of its nodes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        super().__init__(graph)
        self._graph = graph
        self._outputs = {output.name for output in graph.output}

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that read a value, if nothing else does; none for an output of the model."""
        return [] if name in self._outputs else self.readers.get(name, [])

    def constant(self, name: str) -> Array | None:
        """Return a constant of float32, or None."""
        found = self.constants.get(name)
        return found if found is not None and found.dtype == np.float32 else None

    def chain(self, convolution: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Return the nodes after a convolution up to the next one; None if other nodes would see more channels."""
        weights = self.constant(convolution.input[1])
        if weights is None or integer(convolution, "group", 1) != 1 or not self._constant_rest(convolution):
            return None
        channels, value = weights.shape[0], convolution.output[0]
        found: list[onnx.NodeProto] = []
        while len(consumers := self.consumers(value)) == 1:
            (node,) = consumers
            found.append(node)
            if node.op_type == "Conv" and integer(node, "group", 1) == 1:
                ends = node.input[0] == value and self.constant(node.input[1]) is not None
                return found if ends else None
            if node.input[0] != value or not self._passes_zeros(node, channels):
                return None
            value = node.output[0]
        return None

    def _passes_zeros(self, node: onnx.NodeProto, channels: int) -> bool:
        if node.op_type == "Conv":
            weights = self.constant(node.input[1])
            depthwise = (
                integer(node, "group", 1) == channels
                and weights is not None
                and weights.shape[:2] == (channels, 1)
            )
            return depthwise and self._constant_rest(node)
        if node.op_type == "BatchNormalization":
            return self._constant_rest(node)
        if node.op_type == "Clip":
            bounds = [self.constant(name) for name in node.input[1:] if name]
            low, high = [*bounds, None, None][:2]
            return low is not None and high is not None and float(low) <= 0 <= float(high)
        return node.op_type in _KEEP_ZEROS

    def _constant_rest(self, node: onnx.NodeProto) -> bool:
        return all(self.constant(name) is not None for name in node.input[1:])

    def pad(self, convolution: onnx.NodeProto, chain: Sequence[onnx.NodeProto], more: int) -> None:
        """Add output channels of almost zero to a convolution; the last of the chain multiplies them by almost zero."""
        for node in (convolution, *chain[:-1]):
            if node.op_type == "Conv":
                for place, value in zip(range(1, len(node.input)), (_ALMOST_ZERO, 0), strict=False):
                    self._replace(node, place, 0, more, value)
                for attribute in node.attribute:
                    if attribute.name == "group" and attribute.i != 1:
                        attribute.i += more
            elif node.op_type == "BatchNormalization":
                for place, value in enumerate((1, 0, 0, 1), 1):  # scale, bias, mean, variance
                    self._replace(node, place, 0, more, value)
        self._replace(chain[-1], 1, 1, more, _ALMOST_ZERO)

    def _replace(self, node: onnx.NodeProto, place: int, axis: int, more: int, value: float = 0) -> None:
        """Put a longer constant of its own in the place of a node's."""
        array = self.constant(node.input[place])
        assert array is not None
        widths = [(0, more if each == axis else 0) for each in range(array.ndim)]
        name = f"{node.input[place]}/padded/{node.name}"
        self.constants[name] = np.pad(array, widths, constant_values=value)
        self._graph.initializer.append(numpy_helper.from_array(self.constants[name], name))
        node.input[place] = name


def integer(node: onnx.NodeProto, name: str, default: int) -> int:
    """Return an integer among a node's attributes."""
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


def convolutions(model: onnx.ModelProto) -> Iterator[tuple[str, int]]:
    """Yield each convolution's name and its number of channels, where that is known."""
    graph = Graph(model.graph)
    for node in model.graph.node:
        weights = graph.constant(node.input[1]) if node.op_type == "Conv" else None
        if weights is not None:
            yield node.name, weights.shape[0]
