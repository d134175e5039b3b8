# SPDX-License-Identifier: Apache-2.0
"""Attribution of Vela's per-layer estimates to operators, by the names of tensors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.partition.parts import NpuPart
from arm_ext.ethosu.vela.compiler import OperationEstimate
from relay_passes.ir.sources import Names, union

_INPUT = "input-"  # prefix of the names of a graph's inputs in the TOSA serializer, before a number
_LOOK_UP = "LUT"  # Vela's name for layers of table look-ups, for which it also counts multiply-accumulates


def owned(
    part: NpuPart, layers: Sequence[OperationEstimate]
) -> Iterator[tuple[OperationEstimate, Operator[Any] | None]]:
    """Yield each layer with the operator that it belongs to, or None if its names match no operator."""
    computed = {operator.output.name: operator for operator in part.operators}
    readers = {
        f"{_INPUT}{index}": next(op for op in part.operators if tensor in op.inputs)
        for index, tensor in enumerate(part.inputs)
    }
    by_source: dict[int, Operator[Any]] = {}
    for layer in layers:
        # Vela appends suffixes to names of layers that it splits off, "y/3_int32", "input-0_copy", or makes names up.
        scope, inside, _ = layer.name.partition("/")
        operator = computed.get(scope) if inside else readers.get(scope.partition("_")[0])
        if operator is not None:
            by_source[layer.source] = operator
    for layer in layers:
        yield layer, by_source.get(layer.source)


def layer_sources(
    part: NpuPart, layers: Sequence[OperationEstimate]
) -> Iterator[tuple[OperationEstimate, Names]]:
    """Yield each layer with its source nodes.

    Vela names a product that it fused with the operators after it by the last of them. Its nodes go to the first layer
    of that operator that multiplies, so that the layer is known by the product. An operator with several operands, such
    as a concatenation, may have a product fused into any of them.
    """
    owners = list(owned(part, layers))
    with_layer = {operator for _, operator in owners}
    makers = {operator.output.name: operator for operator in part.operators}
    told: set[Operator[Any]] = set()

    def makers_of(operator: Operator[Any]) -> list[Operator[Any]]:
        found = [makers[tensor.name] for tensor in operator.inputs if tensor.name in makers]
        return [maker for maker in found if maker not in with_layer and maker not in told]

    def has_product(operator: Operator[Any]) -> bool:
        return bool(operator.macs) or any(map(has_product, makers_of(operator)))

    for layer, operator in owners:
        if operator is None:
            yield layer, ()
            continue
        chain = [operator]
        while layer.macs and not chain[0].macs:
            others = makers_of(chain[0])
            if layer.operator == _LOOK_UP:
                others = [other for other in others if not has_product(other)]
            maker = max(others, key=has_product, default=None)
            if maker is None:
                break
            chain.insert(0, maker)
        told |= {*chain[:-1]}
        yield layer, union(each.nodes for each in chain)


def cycles_by_operator(part: NpuPart, layers: Sequence[OperationEstimate]) -> Mapping[Operator[Any], int]:
    """Return Vela's cycle estimate of each operator; 0 for one that Vela fused into another."""
    found = dict.fromkeys(part.operators, 0)
    for layer, operator in owned(part, layers):
        if operator is not None:
            found[operator] += layer.cycles
    return found
