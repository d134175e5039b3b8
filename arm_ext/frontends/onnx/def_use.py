# SPDX-License-Identifier: Apache-2.0
"""Definitions and uses of the values of an ONNX graph."""

from collections import defaultdict
from typing import Any

import numpy.typing as npt
from onnx import GraphProto, NodeProto, numpy_helper

from arm_ext.frontends.onnx.values import values_read


class DefUse:
    """Which node computes a value, which ones read it, and which values are constant.

    It describes the graph as it was at construction.

    Attributes:
        producers: Value → the node that computes it.
        readers: Value → the nodes that read it, in the graph's order; a subgraph's reads are those of its node.
        constants: Value → its array, of initialisers and Constant nodes.
        fixed: Values that are the same in every run: constants, and what is computed from them alone.
    """

    def __init__(self, graph: GraphProto) -> None:
        """Record definitions and uses of a graph whose nodes are in topological order."""
        self.producers: dict[str, NodeProto] = {}
        self.readers: dict[str, list[NodeProto]] = defaultdict(list)
        self.constants: dict[str, npt.NDArray[Any]] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self.fixed = set(self.constants)
        for node in graph.node:
            read = list(dict.fromkeys(values_read(node)))
            self.producers.update((name, node) for name in node.output if name)
            for name in read:
                self.readers[name].append(node)
            if node.op_type == "Constant":
                found = [a.t for a in node.attribute if a.name == "value"]
                self.constants.update((node.output[0], numpy_helper.to_array(t)) for t in found)
            if self.fixed.issuperset(read):
                self.fixed.update(node.output)
