# SPDX-License-Identifier: Apache-2.0
"""Layers of a program that PT2E quantised: its quantised tensors, matched by name with the float program's nodes.

    float       x ─ conv2d ─ batch_norm ─ relu ─ y
    quantised   x ─ q ─ dq ─ conv2d ─ relu ─ q ─ dq ─ y'        a layer: y' stands for y, and the three are its nodes

PT2E folds batch normalisation into the convolution before it, and both exports number their nodes alike.
"""

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import tvm
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.fx import Node
from torch.utils._pytree import tree_structure
from tvm import relax

from arm_ext.frontends.torch.export import quiet
from arm_ext.frontends.torch.names import kind_of
from arm_ext.frontends.torch.promote import dtype_name
from arm_ext.frontends.torch.reference import NodeValues
from arm_ext.frontends.torch.translator import operator_of
from arm_ext.quantization.layers import (
    Constant,
    QdqLayer,
    QuantizerConstants,
    WeightedReader,
    input_channel_power,
)
from relay_passes.ir.sources import bindings_of, sources_of

Array = npt.NDArray[Any]

_FORWARD = frozenset({"conv1d", "conv2d", "conv3d"})
CONVOLUTIONS = _FORWARD | {"conv_transpose1d", "conv_transpose2d"}
_PRODUCTS = CONVOLUTIONS | {"bmm", "linear", "matmul", "mm"}
# fmt: off
_ACTIVATIONS = frozenset({
    "clamp", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "relu", "relu6", "sigmoid", "silu", "tanh",
})
_UNPACKS = frozenset({"getitem"})
# These operators move elements, and with equal input and output parameters the stored integers stay the same.
_MOVES = frozenset({
    "clone", "contiguous", "dropout", "expand", "flatten", "max_pool2d", "permute", "reshape", "select", "slice",
    "squeeze", "transpose", "unsqueeze", "view",
})
# fmt: on
_GROUPS = 6
"""Place of a convolution's groups among its arguments."""


@dataclass(frozen=True)
class TorchLayer:
    """A layer of a quantised program, with its nodes in both programs.

    Attributes:
        layer: The layer as reports show it; `source` and `value` are names of nodes of the float and the quantised
            program.
        root: Node of the quantised program before it is quantised.
        dequantized: Nodes that dequantise it.
        variable: Variable of the imported `main` that holds it; None in a program with control flow, whose `main`
            only calls functions.
    """

    layer: QdqLayer
    root: str
    dequantized: tuple[str, ...]
    variable: relax.Var | None


@dataclass(frozen=True)
class TorchMatching:
    """Matches the quantised tensors of a program with nodes of its float program.

    Attributes:
        quantized: The quantised program.
        source: The float program; the quantised one itself where there is none.
    """

    quantized: NodeValues
    source: NodeValues

    def layers(self, mod: tvm.IRModule | None) -> list[TorchLayer]:
        """Return the layers in execution order.

        Args:
            mod: The quantised program as imported, if layers are found in its `main`.
        """
        variables: dict[tuple[str, str], relax.Var] = {}
        for binding in [] if mod is None else bindings_of(mod["main"]):
            ty = binding.var.ty
            for name in sources_of(binding.value) if isinstance(ty, relax.TensorType) else ():
                variables[name, str(ty.dtype)] = binding.var  # the last binding is the node's result
        graph = self.quantized.program.graph
        returned = graph.output_node().all_input_nodes
        values = {node: root_of(node) for node in graph.nodes if self._is_value(node, returned)}
        twins = {node: twin for node, root in values.items() if (twin := self._twin(root)) is not None}
        found: list[TorchLayer] = []
        for node, twin in twins.items():
            name = self.quantized.names.get(node.name, node.name)
            variable = variables.get((name, dtype_name(node.meta["val"].dtype)))
            if variable is not None or mod is None:
                again = any(each.root == values[node].name for each in found)
                layer = self._layer(node, values[node], twin, set(twins.values()), again=again)
                readers = tuple(reader.name for reader in node.users if dequantizes(reader))
                found.append(TorchLayer(layer, values[node].name, readers, variable))
        return found

    def uncovered(self, layers: Collection[TorchLayer]) -> list[str]:
        """Return the nodes of the float program that belong to no layer."""
        covered = {name for each in layers for name in each.layer.nodes}
        return [
            node.name
            for node in self.source.program.graph.nodes
            if node.op == "call_function"
            and node.name not in covered
            and _is_float(node)
            and not _converts(node)
        ]

    def _is_value(self, node: Node, returned: Collection[Node]) -> bool:
        """Whether a node is the value of a layer: quantised integers, or a float output."""
        if _quantizes(node):
            return _quantizer(node, self.quantized) is not None
        return node in returned and node.op == "call_function" and _is_float(node) and not _converts(node)

    def _twin(self, root: Node) -> Node | None:
        """Return the node of the float program that a value approximates."""
        nodes: dict[str, Node] = {node.name: node for node in self.source.program.graph.nodes}
        if root.op == "placeholder":
            places = dict(zip(self.quantized.inputs, self.source.inputs, strict=True))
            places |= {at: self.source.states[name] for name, at in self.quantized.states.items()}
            return nodes.get(places.get(root.name, ""))
        found = nodes.get(root.name)
        if found is None or found.target != root.target or found.meta["val"].shape != root.meta["val"].shape:
            return None
        return self.folded_norm(found) or found

    def folded_norm(self, node: Node) -> Node | None:
        """Return the batch normalisation that PT2E folded into a node of the float program, if there is one."""
        users, own = list(node.users), {each.name for each in self.quantized.program.graph.nodes}
        is_folded = len(users) == 1 and "batch_norm" in kind_of(users[0]) and users[0].name not in own
        return users[0] if is_folded else None

    def _layer(self, node: Node, root: Node, twin: Node, known: set[Node], *, again: bool) -> QdqLayer:
        """Return a layer; `again` says that the same value is also quantised for other readers."""
        quantizer = _quantizer(node, self.quantized) if _quantizes(node) else None
        readers = [reader for reader in node.users if dequantizes(reader)]
        nodes = computed_between(twin, known)
        anchor = _anchor(nodes)
        return QdqLayer(
            name=twin.name if anchor is None else anchor.name,
            operator="input" if anchor is None else operator_of(anchor),
            reader=next((user.name for reader in readers for user in reader.users), "") if again else "",
            nodes=tuple(each.name for each in nodes),
            source=twin.name,
            root=root.name,
            value=node.name,
            integers=None if quantizer is None else node.name,
            quantizer=quantizer,
            dequantizer=_quantizer(readers[0], self.quantized) if readers else quantizer,
            constants=() if anchor is None else tuple(self._constants(anchor, nodes)),
            moved=quantizer is not None and self._is_moved(root, quantizer),
            readers=tuple(self._readers(twin)),
        )

    def _is_moved(self, root: Node, quantizer: QuantizerConstants) -> bool:
        before = root.all_input_nodes[0] if root.all_input_nodes else root
        return (
            kind_of(root) in _MOVES
            and dequantizes(before)
            and quantizer.equals(_quantizer(before, self.quantized))
        )

    def _constants(self, anchor: Node, nodes: list[Node]) -> Iterator[Constant]:
        """Yield the quantised weights and bias of a layer, each with the float program's constant.

        Yield nothing if the layer has operators other than `anchor` and activations.
        """
        twin = next((n for n in self.quantized.program.graph.nodes if n.name == anchor.name), None)
        if twin is None or any(node is not anchor and kind_of(node) not in _ACTIVATIONS for node in nodes):
            return
        for place, role in ((1, "weights"), (2, "bias")):
            ours, theirs = (node.args[place] if len(node.args) > place else None for node in (twin, anchor))
            if not (isinstance(ours, Node) and isinstance(theirs, Node) and dequantizes(ours)):
                continue
            held = self.quantized.constants.get(ours.all_input_nodes[0].name)
            source = self.source.constants.get(theirs.name)
            quantizer = _quantizer(ours, self.quantized)
            if (
                held is not None
                and source is not None
                and quantizer is not None
                and held.shape == source.shape
            ):
                value = quantizer.dequantize(held.detach().numpy())
                yield Constant(role, value, source.detach().numpy(), quantizer)

    def _readers(self, twin: Node) -> Iterator[WeightedReader]:
        """Yield the float program's products that multiply a node by constant weights."""
        for reader in twin.users:
            weights = reader.args[1] if len(reader.args) > 1 and kind_of(reader) in _PRODUCTS else None
            held = self.source.constants.get(weights.name) if isinstance(weights, Node) else None
            if held is None or reader.args[0] is not twin or kind_of(reader) not in _FORWARD | {"linear"}:
                continue
            is_linear = kind_of(reader) == "linear"
            groups = reader.args[_GROUPS] if not is_linear and len(reader.args) > _GROUPS else 1
            power = input_channel_power(held.detach().numpy(), int(str(groups)))
            yield WeightedReader(self.source.names[reader.name], -1 if is_linear else 1, power)


def returning_nodes(program: ExportedProgram, names: Collection[str]) -> ExportedProgram:
    """Return a copy of a program that returns the values of the named nodes after its own outputs."""
    with quiet():
        program = copy.deepcopy(program)
    output, specs = program.graph.output_node(), program.graph_signature.output_specs
    known = {spec.arg.name for spec in specs if isinstance(spec.arg, TensorArgument)}
    added = [node for node in program.graph.nodes if node.name in names and node.name not in known]
    output.args = ((*output.args[0], *added),)
    specs += [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in added]
    count = sum(spec.kind is OutputKind.USER_OUTPUT for spec in specs)
    entry = program.module_call_graph[0].signature
    assert entry is not None
    entry.out_spec = tree_structure((0,) * count)
    entry.outputs = [spec.arg for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    program.graph_module.recompile()
    return program


def _quantizer(node: Node, program: NodeValues) -> QuantizerConstants | None:
    """Return the parameters of a quantize or dequantize; None if they are known only at run time."""
    scale, zero = (_constant(value, program) for value in node.args[1:3])
    value = node.all_input_nodes[0] if dequantizes(node) else node
    dtype = dtype_name(value.meta["val"].dtype)
    if scale is None or zero is None:
        return None
    axis = node.args[3] if "per_channel" in kind_of(node) else 1
    return QuantizerConstants(scale.astype(np.float32), zero.astype(dtype), int(str(axis)))


def _constant(value: object, program: NodeValues) -> Array | None:
    if isinstance(value, Node):
        held = program.constants.get(value.name)
        return None if held is None else held.detach().numpy()
    return np.asarray(value)


def _quantizes(node: Node) -> bool:
    return kind_of(node) == "quantize_per_tensor"


def dequantizes(node: Node) -> bool:
    """Whether a node dequantises a tensor."""
    return kind_of(node).startswith("dequantize_per")


def _converts(node: Node) -> bool:
    return _quantizes(node) or dequantizes(node)


def root_of(node: Node) -> Node:
    """Return the node that a value had before it was quantised."""
    while _converts(node):
        node = node.all_input_nodes[0]
    return node


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def computed_between(twin: Node, known: Collection[Node]) -> list[Node]:
    """Return the nodes that compute a node from known ones, in the program's order."""
    found, todo = {twin}, [twin]
    while todo:
        new = {node for node in todo.pop().all_input_nodes if node not in known and node not in found}
        found |= new
        todo += new
    return [
        node
        for node in twin.graph.nodes
        if node in found and node.op == "call_function" and not _converts(node)
    ]


def _anchor(nodes: list[Node]) -> Node | None:
    """Return the node after which a layer is named: a product, else a node that is no activation, else its last."""
    for kinds in (_PRODUCTS, {kind_of(node) for node in nodes} - _ACTIVATIONS - _UNPACKS):
        if found := [node for node in nodes if kind_of(node) in kinds]:
            return found[-1]
    return nodes[-1] if nodes else None
