# SPDX-License-Identifier: Apache-2.0
"""Removal of dead channels (constant or unused), together with the weights that compute and read them.

    conv2d(relu(conv2d(x, V) + b), W)    →    conv2d(relu(conv2d(x, V') + b'), W') + c
        V', b', W' without the channels whose filters V[c] are 0
        c = Σ W[:, c] · relu(b[c]), summed over the window; no addition if that is 0

A channel is removed together with all channels that it is linked to by residual sums, concatenations, depthwise
convolutions and pools, up to the products that sum over it. It is kept if it reaches the model's output, a call that
mixes channels, or a convolution that pads it with 0 although its constant is not 0. At least one channel of each value
is kept.

The results are the same: only zeros are removed from sums. In float, a constant other than 0 is added after the sum
instead of in it, which can change last bits like any other order of summation. Data is assumed to be finite, since
0 · inf is NaN. For quantised models, the constants are integers in units of the accumulators, and results are
bit-identical.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Attrs, Call, Expr, Var

from relay_passes.channels.constant_channels import constant_channels, foldable
from relay_passes.channels.flow import (
    Array,
    Flow,
    Flows,
    Index,
    Mask,
    WeightedProduct,
    has_candidates,
    quantized_data,
    read_flows,
)
from relay_passes.integerize.numerics import Numerics
from relay_passes.ir.calls import SHAPE_ONLY, with_attrs
from relay_passes.ir.function_writer import FunctionWriter
from relay_passes.ir.shapes import shape_of
from relay_passes.ir.sources import Names, relax_functions, sources_of
from relay_passes.layout.constants import Static, static_of
from relay_passes.rules.common.linear_calls import is_transposed
from schedules.diagnostic import Diagnostic

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class RemovedChannels:
    """The channels that were removed from one convolution or matrix product, for reports.

    Attributes:
        nodes: Source nodes of the product.
        channels: Indices of output channels that are no longer computed.
        of: Number of output channels before the removal.
        inputs: Indices of input channels that are no longer read.
        of_inputs: Number of input channels before the removal.
        macs: Number of multiply-accumulates saved.
        weight_bytes: Bytes of weights saved.
    """

    nodes: Names
    channels: tuple[int, ...]
    of: int
    inputs: tuple[int, ...]
    of_inputs: int
    macs: int
    weight_bytes: int


def remove_channels(
    mod: IRModule, numerics: Numerics
) -> tuple[IRModule, tuple[RemovedChannels, ...], tuple[Diagnostic, ...]]:
    """Remove dead channels of every function.

    Args:
        mod: Module in canonical form.
        numerics: The numerics of quantised operators.

    Returns:
        The module (the same object if no channel was removed), the removed channels by product, and the constant
        channels that were kept, with the reason.
    """
    out, removed, kept = mod.clone(), [], []
    for gv, func in relax_functions(mod):
        if not all(isinstance(block, relax.DataflowBlock) for block in func.body.blocks):
            continue
        flows = read_flows(func)
        if not has_candidates(flows):
            continue
        plan = _Plan.of(flows, numerics)
        kept += plan.diagnostics()
        if found := plan.removed():
            removed += found
            out.update_func(gv, _Writer(func, plan).run())
    return (out if removed else mod), tuple(removed), tuple(kept)


@dataclass(frozen=True)
class _Plan:
    """The decision which channels are kept.

    Attributes:
        flows: The flows of the function.
        keeps: Mask of the kept channels of each value.
        folded: For the result of each product, mask of the input channels whose constants can be folded into a bias.
        numbers: Constants of the channels of each value.
        constant: Mask of the constant channels of each value.
    """

    flows: Flows
    keeps: dict[Var, Mask]
    folded: dict[Var, Mask]
    numbers: dict[Var, Array]
    constant: dict[Var, Mask]

    @classmethod
    def of(cls, flows: Flows, numerics: Numerics) -> "_Plan":
        constant, numbers = constant_channels(flows, numerics)
        folded = {
            flow.var: foldable(flow.product, constant, numbers) & _has_units(flow.product, flows, numbers)
            for flow in flows.found
            if flow.product is not None and flow.product.tracked and flow.product.at.groups == 1
        }
        return cls(flows, _kept(flows, folded), folded, numbers, constant)

    def kept(self, var: Var) -> Index:
        """Return the indices of the kept channels of a value."""
        return np.flatnonzero(self.keeps[var])

    def removed(self) -> list[RemovedChannels]:
        """Return the removed channels of each product from which channels were removed."""
        products = ((flow, flow.product) for flow in self.flows.found if flow.product is not None)
        found = (self._removed(flow, product) for flow, product in products)
        return [each for each in found if each.channels or each.inputs]

    def _removed(self, flow: Flow, product: WeightedProduct) -> RemovedChannels:
        at, data = product.at, product.data
        outs = self.keeps[flow.var]
        ins = self.keeps[data] if product.tracked else np.ones(at.inputs, bool)
        # In a grouped product, input channels are only removed with their whole group.
        left = outs.mean() * (ins.mean() if at.groups == 1 else 1.0)
        counted = shape_of(data if is_transposed(flow.node.call) else flow.var)
        per_channel = product.weight.data.size // (at.inputs if is_transposed(flow.node.call) else at.outputs)
        return RemovedChannels(
            sources_of(flow.node.call),
            tuple(map(int, np.flatnonzero(~outs))),
            outs.size,
            tuple(map(int, np.flatnonzero(~ins))),
            ins.size,
            round(math.prod(counted) * per_channel * (1 - left)),
            round(product.weight.data.nbytes * (1 - left)),
        )

    def diagnostics(self) -> list[Diagnostic]:
        """Return a diagnostic for each product whose constant input channels are kept because of padding with 0."""
        found: list[Diagnostic] = []
        for flow in self.flows.found:
            if flow.var not in self.folded or flow.product is None:
                continue
            data = flow.product.data
            padded = self.keeps[data] & self.constant.get(data, False) & ~self.folded[flow.var]
            if padded.any():
                found.append(
                    Diagnostic(
                        f"{int(padded.sum())} constant channels of its data stay: they are not 0, and it pads with 0",
                        nodes=sources_of(flow.node.call),
                        asked="remove_channels",
                        operator=flow.node.name.removeprefix("relax."),
                        hint="prune their biases, too (BatchNorm's beta), so that they are 0",
                    )
                )
        return found


def _has_units(product: WeightedProduct, flows: Flows, numbers: dict[Var, Array]) -> Mask:
    """Return the mask of input channels whose constant is 0, or contributes an integer to the accumulators."""
    everywhere = np.ones(product.at.inputs, bool)
    if product.weight.scale is None or quantized_data(product.data, flows)[1]:
        return everywhere
    own = numbers.get(product.data)
    return everywhere if own is None else np.asarray(own == 0)


def _kept(flows: Flows, folded: dict[Var, Mask]) -> dict[Var, Mask]:
    """Return the smallest consistent set of channels to keep, at least one per value."""
    keeps = {var: np.full(shape_of(var)[axis], var in flows.whole) for var, axis in flows.axes.items()}
    while True:
        _spread(flows, folded, keeps)
        empty = next((mask for mask in keeps.values() if not mask.any()), None)
        if empty is None:
            return keeps
        empty[0] = True


def _spread(flows: Flows, folded: dict[Var, Mask], keeps: dict[Var, Mask]) -> None:
    """Add to the kept channels all channels that they are linked to or computed from, up to a fixed point."""
    count = -1
    while count != (count := sum(int(mask.sum()) for mask in keeps.values())):
        for flow in (*reversed(flows.found), *flows.found):
            own = keeps[flow.var]
            for link in flow.links:
                other = keeps[link.operand]
                np.logical_or.at(other, link.inside, own[link.outside])
                np.logical_or.at(own, link.outside, other[link.inside])
            if flow.var in folded and flow.product is not None:
                keeps[flow.product.data] |= flow.product.used[own].any(0) & ~folded[flow.var]


class _Writer(FunctionWriter):
    """Writer of a function without the removed channels."""

    def __init__(self, func: relax.Function, plan: _Plan) -> None:
        super().__init__(func)
        self._plan = plan
        self._flows = {flow.var: flow for flow in plan.flows.found}
        for flow in plan.flows.found:
            self._flows.setdefault(flow.node.var, flow)

    def changed(self, var: Var, call: Call) -> Expr:
        flow, names = self._flows.get(var), sources_of(call)
        if flow is None:
            return self._renamed(call)
        return self._call(flow, names) if flow.product is None else self._product(flow, flow.product, names)

    def _constant(self, static: Static, names: Names) -> Expr:
        expr = static.expr()
        return self._emit(expr, static.nodes or names) if isinstance(expr, Call) else expr

    def _call(self, flow: Flow, names: Names) -> Call:
        """Return a call that keeps channels separate, applied to the kept channels."""
        stay = self._plan.kept(flow.var)
        sliced = flow.sliced or (None,) * len(flow.node.operands)
        operands: list[Expr] = []
        for operand, axis in zip(flow.node.operands, sliced, strict=True):
            static = static_of(operand, self._plan.flows.statics)
            if axis is not None and static is not None:
                operands.append(self._constant(_taken(static, axis, stay), names))
            else:
                operands.append(self._renamed(operand))
        if flow.node.name in SHAPE_ONLY:
            shape = list(shape_of(flow.var))
            shape[flow.axis] = stay.size
            return relax.op.reshape(operands[0], shape)
        if (
            flow.node.name == "relax.split"
            and int(flow.node.call.attrs.axis) % len(shape_of(flow.var)) == flow.axis
        ):
            return relax.op.split(operands[0], self._ends(flow), flow.axis)
        return flow.node.put(operands)

    def _ends(self, flow: Flow) -> list[int]:
        """Return the indices of a split, adjusted to the kept channels."""
        parts = [var for _, var in sorted(flow.node.outputs, key=lambda output: output[0] or 0)]
        return [int(end) for end in np.cumsum([self._plan.kept(var).size for var in parts])[:-1]]

    def _product(self, flow: Flow, product: WeightedProduct, names: Names) -> Call:
        plan, at = self._plan, product.at
        outs = plan.kept(flow.var)
        ins = plan.kept(product.data) if product.tracked else np.arange(at.inputs)
        weight = _taken(product.weight, at.weight_out, outs)
        changes: dict[str, object] = {}
        if at.groups == 1:
            weight = _taken(weight, at.weight_in, ins)
        elif outs.size != at.outputs:
            changes["groups"] = outs.size // (at.outputs // at.groups)
        call = with_attrs(
            flow.node.call, [self._renamed(product.data), self._constant(weight, names)], **changes
        )
        shift = self._shift(flow, product, outs)
        return call if shift is None else relax.op.add(self._emit(call, names), self._constant(shift, names))

    def _shift(self, flow: Flow, product: WeightedProduct, outs: Index) -> Static | None:
        """Return the contribution of removed constant channels to each output channel; None if it is 0."""
        plan = self._plan
        if flow.var not in plan.folded:
            return None
        gone = np.flatnonzero(plan.folded[flow.var] & ~plan.keeps[product.data])
        if not gone.size or product.data not in plan.numbers:
            return None
        numbers = plan.numbers[product.data][gone].astype(np.float64)
        taps = product.sums[outs][:, gone]
        shape = [-1 if axis == product.at.output_axis else 1 for axis in range(product.at.ndim)]
        weight = product.weight
        if weight.scale is None:
            total = (taps @ numbers).astype(weight.data.dtype)
            return Static(total.reshape(shape)) if total.any() else None
        unit, _ = quantized_data(product.data, plan.flows)
        units = taps @ np.rint(numbers / unit).astype(np.int64)
        if not units.any():
            return None
        scale = np.float32(unit) * weight.scale.astype(np.float32).reshape(-1)
        scale = scale[outs] if scale.size > 1 else scale.reshape(())
        if np.abs(units).max() > _INT32_MAX:
            return Static((units * scale.astype(np.float64)).astype(np.float32).reshape(shape))
        zero = np.zeros(scale.shape, np.int32)
        data = units.astype(np.int32).reshape(shape)
        return Static(data, scale, zero, product.at.output_axis, _DEQUANTIZE, sources_of(flow.node.call))


_DEQUANTIZE: Attrs = relax.op.dequantize(
    relax.const(0, "int32"), relax.const(1.0, "float32"), relax.const(0, "int32"), axis=0, out_dtype="float32"
).attrs


def _taken(static: Static, axis: int, stay: Index) -> Static:
    """Return a copy of a constant with only the channels `stay` along an axis."""
    if static.data.shape[axis] == stay.size:
        return static
    new = replace(static, data=np.ascontiguousarray(static.data.take(stay, axis)))
    if not static.is_per_axis or static.axis != axis:
        return new
    scale, zero = (
        part if part is None or part.size == 1 else part.take(stay)
        for part in (static.scale, static.zero_point)
    )
    return replace(new, scale=scale, zero_point=zero)
