# SPDX-License-Identifier: Apache-2.0
"""Conversion of layers back to float in a program that PT2E quantised.

    x ─ q ─ dq ─ conv2d(dq(w)) ─ relu ─ q ─ dq ─ …    →    x ─ q ─ dq ─ conv2d(w) ─ relu ─ …

Their weights are the float program's, with batch normalisation folded in as PT2E does. A tensor stays quantised while
anything in integers computes or reads it.
"""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.nn.utils.fusion import fuse_conv_bn_weights

from arm_ext.frontends.torch.export import quiet
from arm_ext.frontends.torch.names import kind_of, module_path
from arm_ext.quantization.float_layers import IntegerLayer
from arm_ext.quantization.torch_layers import (
    CONVOLUTIONS,
    TorchLayer,
    TorchMatching,
    computed_between,
    dequantizes,
    root_of,
)

_WEIGHTS, _BIAS = 1, 2
"""Places of constants among the arguments of a product."""

# Index of epsilon among the arguments of each variant of batch normalisation; the four after the input are
# parameters.
_EPSILON = {"batch_norm": 7, "_native_batch_norm_legit_no_training": 6}


@dataclass(frozen=True)
class TorchFloatLayers:
    """Builds variants of a PT2E-quantised program with some layers in float.

    Attributes:
        matching: The quantised program and the float one.
        layers: The layers of both.
    """

    matching: TorchMatching
    layers: Sequence[TorchLayer]

    @cached_property
    def units(self) -> list[IntegerLayer]:
        """Return the layers that can be put back to float, in execution order."""
        source = {node.name: node for node in self.matching.source.program.graph.nodes}
        found: dict[str, tuple[str, ...]] = {}
        owners: dict[str, str] = {}
        for layer in (each.layer for each in self.layers):
            if not layer.nodes:
                continue
            before = source[layer.nodes[0]].all_input_nodes
            owner = owners.get(before[0].name, layer.name) if layer.moved and before else layer.name
            found[owner] = tuple(dict.fromkeys((*found.get(owner, ()), *layer.nodes)))
            owners.update(dict.fromkeys(layer.nodes, owner))
        return [IntegerLayer(name, nodes) for name, nodes in found.items()]

    def modules(self, units: Collection[str]) -> tuple[str, ...]:
        """Return the paths of the float program's modules that compute the given layers."""
        source = {node.name: node for node in self.matching.source.program.graph.nodes}
        paths = (module_path(source[unit.name]) for unit in self.units if unit.name in units)
        return tuple(dict.fromkeys(path for path in paths if path))

    def with_float(self, kept: Collection[str]) -> ExportedProgram:
        """Return the quantised program with complete layers, given by nodes of the float program, in float."""
        with quiet():
            program = copy.deepcopy(self.matching.quantized.program)
        nodes = {node.name: node for node in program.graph.nodes}
        known = {node for node in program.graph.nodes if dequantizes(node)}
        in_float = {
            node
            for each in self.layers
            if each.layer.nodes and {*each.layer.nodes}.issubset(kept)
            for node in computed_between(nodes[each.root], known)
        }
        for node in known:
            (held, *_) = node.all_input_nodes
            if root_of(held).op == "placeholder" and in_float.issuperset(node.users):
                self._put_float_constant(program, node)
        for each in self.layers:
            readers = [nodes[name] for name in each.dequantized]
            users = {user for reader in readers for user in reader.users if user.op != "output"}
            if in_float.issuperset(users) and {*each.layer.nodes}.issubset(kept):
                for reader in readers:
                    _replace(program, reader, nodes[each.root])
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
        return program

    def _put_float_constant(self, program: ExportedProgram, dequantized: Node) -> None:
        """Replace a dequantised weight or bias by the constant that the product of the same name reads in float."""
        value = next(
            (
                found
                for user in dequantized.users
                for place in (_WEIGHTS, _BIAS)
                if len(user.args) > place and user.args[place] is dequantized
                if (found := self._constants(user.name).get(place)) is not None
            ),
            None,
        )
        (holder,) = dequantized.all_input_nodes[:1]
        targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
        if value is None or holder.op != "placeholder" or holder.meta["val"].shape != value.shape:
            return
        target = targets[holder.name]
        store = program.constants if target in program.constants else program.state_dict
        store[target] = value
        holder.meta["val"] = holder.meta["val"].to(value.dtype)
        _replace(program, dequantized, holder)

    def _constants(self, name: str) -> dict[int, torch.Tensor]:
        """Return the constants of the float program's product, by operand index, with batch normalisation folded in."""
        matching = self.matching
        node = next((n for n in matching.source.program.graph.nodes if n.name == name), None)
        if node is None:
            return {}
        weights, bias = (_held(node, place, matching) for place in (_WEIGHTS, _BIAS))
        norm = matching.folded_norm(node)
        if norm is not None and weights is not None and kind_of(node) in CONVOLUTIONS:
            gamma, beta, mean, variance = (_held(norm, place, matching) for place in range(1, 5))
            assert mean is not None
            assert variance is not None
            epsilon = float(str(norm.args[_EPSILON[kind_of(norm)]]))
            weights, bias = fuse_conv_bn_weights(
                weights,
                bias,
                mean,
                variance,
                epsilon,
                gamma,
                beta,
                transpose=kind_of(node).startswith("conv_transpose"),
            )
        both = {_WEIGHTS: weights, _BIAS: bias}
        return {place: value.detach() for place, value in both.items() if value is not None}


def _held(node: Node, place: int, matching: TorchMatching) -> torch.Tensor | None:
    value = node.args[place] if len(node.args) > place else None
    return matching.source.constants.get(value.name) if isinstance(value, Node) else None


def _replace(program: ExportedProgram, old: Node, new: Node) -> None:
    """Replace a node by another in its readers and in the program's outputs."""
    old.replace_all_uses_with(new)
    for spec in program.graph_signature.output_specs:
        if getattr(spec.arg, "name", None) == old.name:
            spec.arg.name = new.name
