# SPDX-License-Identifier: Apache-2.0
"""Additional output channels that let convolutions fill the kernel's tile; the results stay the same.

    conv2d(f(conv2d(x, V)), W)    →    conv2d(f(conv2d(x, V')), W')
        V', W' with channels of almost zero, which f maps to numbers so small that they change no sum

Compilation would remove channels of zeros. f is the sequence of operators between two convolutions: biases, batch
norms, activations, depthwise convolutions and pools, which all get the new channels. Weights must be float constants;
quantised models, whose weights are integers, are not changed.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax.analysis import free_vars

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.changes import Changed, remade, with_main
from relay_passes.ir.calls import BoundCall, array_of, nodes_of, tensor_const, with_attrs
from relay_passes.ir.function_writer import FunctionWriter
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.ir.sources import bindings_of, sources_of, union
from relay_passes.rules.common.linear_calls import CONVOLUTIONS, Channels, channels_of

TILES = (16, 8, 4)
"""Channels that kernels compute together: four vectors of float32, two, and one."""

# Maximum share of added channels: more would cost more than full tiles save.
_MOST_MORE = 0.25

_ALMOST_ZERO = 2.0**-60
"""Weights so small that adding the product of two of them changes no float32 sum, unless that is as small."""

# Elementwise operators of two operands → numpy's, and the value of a per-channel constant in added channels.
_BINARY: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "relax.add": (np.add, 0),
    "relax.subtract": (np.subtract, 0),
    "relax.multiply": (np.multiply, 1),
    "relax.divide": (np.divide, 1),
    "relax.maximum": (np.maximum, 0),
    "relax.minimum": (np.minimum, 0),
}
# Operators that map zeros to zeros and do not depend on the number of channels.
_ELEMENTWISE = ("relax.nn.relu", "relax.nn.leakyrelu", "relax.tanh")
_POOLS = ("relax.nn.max_pool2d", "relax.nn.avg_pool2d", "relax.nn.adaptive_avg_pool2d")
_BATCH_NORM = (1, 0, 0, 1)  # scale, bias, mean and variance of an added channel


def full_tile(channels: int) -> int | None:
    """Return the next number of channels that fills a tile; None if the tile is full, or too many would be added."""
    for tile in TILES:
        wanted = math.ceil(channels / tile) * tile
        if channels < wanted <= channels * (1 + _MOST_MORE):
            return wanted
        if wanted == channels:
            return None
    return None


@remade
def padded_channels(model: ImportedModel) -> Changed | None:
    """Return the model with output channels added to convolutions, so that they fill a tile.

    None if there are none to add.

    A convolution is left as it is unless all of its result goes to one other convolution, through operators that keep
    channels apart.
    """
    main: relax.Function = model.mod["main"]
    padding = _Padding()
    padded: list[tuple[tuple[str, ...], str]] = []
    for chain in _chains(main):
        before, wanted = chain.channels, full_tile(chain.channels)
        assert wanted is not None
        padding.extend(chain, wanted - before)
        padded.append((sources_of(chain.first.call), f"{before} → {wanted}"))
    if not padded:
        return None
    counts = Counter(change for _, change in padded).most_common()
    what = ", ".join(f"{change} channels ({count})" for change, count in counts)
    changed = with_main(model, _Writer(main, padding).run())
    return Changed(changed, union(names for names, _ in padded), what)


@dataclass(frozen=True)
class _Chain:
    """A convolution, the channel-wise calls after it, and the convolution that reads the channels.

    Attributes:
        first: The convolution whose output channels can be more.
        between: The calls between the two, in program order.
        last: The convolution that reads the channels.
    """

    first: BoundCall
    between: tuple[BoundCall, ...]
    last: BoundCall

    @property
    def axis(self) -> int:
        """The axis of the channels."""
        return channels_of(self.first.call).output_axis

    @property
    def channels(self) -> int:
        """Number of channels."""
        return channels_of(self.first.call).outputs


def _chains(func: relax.Function) -> list[_Chain]:
    """Return the chains whose channels leave a part of a tile empty and can be extended."""
    if not all(isinstance(block, relax.DataflowBlock) for block in func.body.blocks):
        return []
    nodes = nodes_of(func)
    calls = {node.var for node in nodes}
    # Values that bindings other than calls read, such as tuples, or that are outputs: their channels must not
    # change.
    whole = set(free_vars(func.body.body))
    for binding in bindings_of(func):
        if binding.var not in calls and not isinstance(binding.value, relax.TupleGetItem):
            whole |= set(free_vars(binding.value))
    found = []
    for place, node in enumerate(nodes):
        at = _product(node)
        if at is not None and at.groups == 1 and full_tile(at.outputs):
            chain = _chain(node, nodes[place + 1 :])
            between = () if chain is None else (chain.first, *chain.between)
            if chain is not None and not any(var in whole for each in between for _, var in each.outputs):
                found.append(chain)
    return found


def _product(node: BoundCall) -> Channels | None:
    """Return the channels of a convolution with constant float32 weights; None for other calls."""
    static = all(static_shape(tensor) is not None for tensor in (*node.operands, node.var))
    if node.name not in CONVOLUTIONS or not static or _constant(node.operands[1]) is None:
        return None
    layouts = (str(node.call.attrs.data_layout), str(node.call.attrs.kernel_layout))
    return channels_of(node.call) if all(layout.isalpha() for layout in layouts) else None


def _constant(operand: Expr) -> npt.NDArray[Any] | None:
    if not isinstance(operand, GenericConst) or str(operand.ty.dtype) != "float32":
        return None
    return array_of(operand)


def _chain(first: BoundCall, behind: list[BoundCall]) -> _Chain | None:
    """Return the chain that begins at a convolution.

    None if the added channels would reach anything but one convolution.
    """
    at = channels_of(first.call)
    numbers: dict[Var, float] = {first.var: 0.0}  # value → the number in its added channels
    between: list[BoundCall] = []
    ends: list[BoundCall] = []
    for node in behind:
        if numbers.keys().isdisjoint(free_vars(node.call)):
            continue
        product = _product(node)
        if product is not None and product.groups == 1:
            if numbers.get(node.operands[0]) != 0 or product.data_axis != at.output_axis:
                return None
            ends.append(node)
            continue
        number = _number(node, at, numbers)
        if number is None or not node.outputs:
            return None
        numbers[node.outputs[0][1]] = number
        between.append(node)
    return _Chain(first, tuple(between), ends[0]) if len(ends) == 1 else None


def _number(node: BoundCall, at: Channels, numbers: Mapping[Var, float]) -> float | None:
    """Return the number in a result's added channels, given those of its operands; None if it is unknown."""
    if node.name in _BINARY:
        compute, _ = _BINARY[node.name]
        operands = [_operand(node, operand, at, numbers) for operand in node.operands]
        return None if None in operands else float(compute(*operands))
    number = numbers.get(node.operands[0])
    if number is None:
        return None
    if node.name == "relax.clip":
        low, high = (float(bound.value) for bound in node.call.args[1:])
        return min(max(number, low), high)
    return 0.0 if number == 0 and _keeps_zeros(node, at) else None


def _operand(node: BoundCall, operand: Expr, at: Channels, numbers: Mapping[Var, float]) -> float | None:
    if operand in numbers:
        return numbers[operand]
    value = _constant(operand)
    if value is None:
        return None
    if _varies(value, at):
        return _BINARY[node.name][1]
    return float(value.reshape(-1)[0]) if value.size == 1 else None


def _varies(value: npt.NDArray[Any], at: Channels) -> bool:
    """Whether a constant has one number per channel and no other axis."""
    axis = at.output_axis - (at.ndim - value.ndim)
    return axis >= 0 and value.shape[axis] == value.size == at.outputs


def _keeps_zeros(node: BoundCall, at: Channels) -> bool:
    if node.name in _ELEMENTWISE:
        return True
    attrs = node.call.attrs
    if node.name in _POOLS:
        return str(attrs.layout).find("C") == at.output_axis
    if node.name == "relax.mean":
        rank = len(shape_of(node.operands[0]))
        return bool(attrs.keepdims) and at.output_axis not in {
            int(axis) % rank for axis in attrs.axis or (at.output_axis,)
        }
    if node.name == "relax.nn.batch_norm":
        constants = all(_constant(operand) is not None for operand in node.operands[1:])
        return constants and int(attrs.axis) % at.ndim == at.output_axis
    product = _product(node)
    if product is None:
        return False
    depthwise = product.groups == product.inputs == product.outputs == at.outputs
    return depthwise and product.data_axis == product.output_axis == at.output_axis


@dataclass
class _Padding:
    """The changes of the calls in chains.

    Attributes:
        constants: Variable of a call → index of a constant operand → the longer constant.
        groups: Variable of a depthwise convolution → its groups.
        retyped: Variables of the other calls whose operands have more channels.
    """

    constants: dict[Var, dict[int, npt.NDArray[Any]]] = field(default_factory=dict)
    groups: dict[Var, int] = field(default_factory=dict)
    retyped: set[Var] = field(default_factory=set)

    def extend(self, chain: _Chain, more: int) -> None:
        """Add channels with almost zero weights; the last convolution multiplies them by almost zero weights."""
        at = channels_of(chain.first.call)
        self._longer(chain.first, 1, at.weight_out, more, _ALMOST_ZERO)
        for node in chain.between:
            self.retyped.add(node.var)
            if node.name in _BINARY:
                for place, operand in enumerate(node.operands):
                    value = _constant(operand)
                    if value is not None and _varies(value, at):
                        axis = at.output_axis - (at.ndim - value.ndim)
                        self._longer(node, place, axis, more, _BINARY[node.name][1])
            elif node.name == "relax.nn.batch_norm":
                for place, number in enumerate(_BATCH_NORM, 1):
                    self._longer(node, place, 0, more, number)
            elif node.name in CONVOLUTIONS:
                own = channels_of(node.call)
                self._longer(node, 1, own.weight_out, more, _ALMOST_ZERO)
                self.groups[node.var] = own.groups + more
        self._longer(chain.last, 1, channels_of(chain.last.call).weight_in, more, _ALMOST_ZERO)

    def _longer(self, node: BoundCall, place: int, axis: int, more: int, number: float) -> None:
        held = self.constants.setdefault(node.var, {})
        value = held[place] if place in held else _constant(node.operands[place])
        assert value is not None
        widths = [(0, more if each == axis else 0) for each in range(value.ndim)]
        held[place] = np.pad(value, widths, constant_values=number)


class _Writer(FunctionWriter):
    """Rewrites a function with added channels."""

    def __init__(self, func: relax.Function, padding: _Padding) -> None:
        super().__init__(func)
        self._padding = padding

    def changed(self, var: Var, call: Call) -> Expr:
        new = self._renamed(call)
        constants = self._padding.constants.get(var, {})
        if not constants and var not in self._padding.retyped:
            return new
        operands = [
            tensor_const(constants[place]) if place in constants else operand
            for place, operand in enumerate(new.args)
        ]
        groups = {"groups": self._padding.groups[var]} if var in self._padding.groups else {}
        return with_attrs(new, operands, **groups)
