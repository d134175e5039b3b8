# SPDX-License-Identifier: Apache-2.0
"""Analysis of the channels that are constant for all inputs, and of their values.

    conv2d(x, W)[c] = 0                  if W[c] is 0 for all input channels except those that are constant 0
    f(a, b)[c] = f(a[c], b[c])           if a[c] and b[c] are constant
    (a · b)[c] = 0                       if a[c] is 0

The weights prove that a channel is constant. Its value is computed by executing the calls in the compiler: a copy of
them for a single spatial position, with all other channels 0, is lowered (by `integerize` if it is quantised) and run.
So the value is bit-identical to that of the original model, with all its roundings. Data is assumed to be finite: a
filter of zeros gives 0 for finite data, but NaN for infinities and NaN.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Var

from relay_passes.canonicalize.fold_constants import compute
from relay_passes.channels.flow import Array, Flow, Flows, Link, Mask, WeightedProduct
from relay_passes.integerize import integerize
from relay_passes.integerize.numerics import Numerics
from relay_passes.ir.calls import name_of, tensor_const, with_attrs
from relay_passes.ir.shapes import shape_of
from relay_passes.ir.sources import sources_of, with_source
from relay_passes.layout.constants import Static, static_of

Constants = Mapping[Var, Mask]
Values = Mapping[Var, Array]


def constant_channels(flows: Flows, numerics: Numerics) -> tuple[dict[Var, Mask], dict[Var, Array]]:
    """Return the mask of constant channels of each value, and the channels' constants of the values that need them."""
    hopeful = prove(flows, None)
    asked = [var for var in _asked(flows) if var in hopeful and hopeful[var].any()]
    values = _Probe(flows, hopeful, asked).run(numerics) if asked else {}
    return prove(flows, values), values


def prove(flows: Flows, values: Values | None) -> dict[Var, Mask]:
    """Return the mask of constant channels of each value.

    Args:
        flows: The flows of the function.
        values: The channels' constants. If None, constants are assumed to be as each call requires, and the result is
            an upper bound.
    """
    found: dict[Var, Mask] = {}
    for flow in flows.found:
        if flow.product is not None:
            found[flow.var] = _of_product(flow.product, found, values)
        elif flow.constant == "never":
            found[flow.var] = np.zeros(flow.count, bool)
        else:
            found[flow.var] = _of_links(flow, found, values)
    return found


def foldable(product: WeightedProduct, found: Constants, values: Values) -> Mask:
    """Return the mask of a product's input channels that are constant at every tap, padding included."""
    constant = found.get(product.data)
    if constant is None or not product.tracked:
        return np.zeros(product.at.inputs, bool)
    numbers = values.get(product.data, np.zeros(0))
    if numbers.size != constant.size:
        return np.zeros(constant.size, bool)
    return np.asarray(constant & np.isfinite(numbers) & (product.exact_border | (numbers == 0)))


def _of_product(product: WeightedProduct, found: Constants, values: Values | None) -> Mask:
    at = product.at
    if values is None:
        constant = found.get(product.data) if product.tracked else None
        constant = np.zeros(at.inputs, bool) if constant is None else constant
    else:
        constant = foldable(product, found, values)
    groups = np.repeat(constant.reshape(at.groups, -1), at.outputs // at.groups, axis=0)
    return np.asarray(~(product.used & ~groups).any(1))


def _of_links(flow: Flow, found: Constants, values: Values | None) -> Mask:
    def constant(link: Link) -> Mask:
        return found.get(link.operand, np.zeros(shape_of(link.operand)[0], bool))[link.inside]

    every = np.ones(flow.count, bool)
    for link in flow.links:
        every[link.outside] &= constant(link)
    if flow.constant == "factor":
        for link in flow.links:
            zero = constant(link)
            if values is not None:
                zero = zero & _equals(link, values, 0.0)
            every[link.outside] |= zero
    elif values is not None and flow.constant == "needs":
        every[flow.links[0].outside] &= _equals(flow.links[0], values, flow.needs)
    elif values is not None and flow.constant == "alike":
        first = values.get(flow.links[0].operand)
        for link in flow.links:
            every &= np.zeros(1, bool) if first is None else _equals(link, values, first)
    return every


def _equals(link: Link, values: Values, number: Array | float) -> Mask:
    own = values.get(link.operand)
    return np.zeros(link.inside.size, bool) if own is None else np.asarray((own == number)[link.inside])


def _asked(flows: Flows) -> list[Var]:
    """Return the variables whose channels' constants affect the analysis or the removal."""
    found: dict[Var, None] = {}
    for flow in flows.found:
        if flow.product is not None and flow.product.tracked:
            found[flow.product.data] = None
        if flow.constant in ("needs", "alike", "factor"):
            found.update(dict.fromkeys(link.operand for link in flow.links))
    return list(found)


class _Probe:
    """A copy, for one spatial position, of the calls that compute constant channels: values are [1, channels, 1, 1]."""

    def __init__(self, flows: Flows, hopeful: Constants, asked: list[Var]) -> None:
        self._flows, self._hopeful, self._asked = flows, hopeful, asked
        self._builder = relax.BlockBuilder()
        self._bindings: list[relax.Binding] = []
        self._params: list[Var] = []
        self._values: dict[Var, Var] = {}

    def run(self, numerics: Numerics) -> dict[Var, Array]:
        """Compute the channels of the requested values; channels that are not constant have arbitrary numbers."""
        needed = self._needed()
        for flow in self._flows.found:
            if flow.var in needed:
                self._values[flow.var] = self._emit(self._call(flow), flow.node.call)
        result = Var("result", relax.TupleType([self._values[var].ty for var in self._asked]))
        whole = relax.Tuple([self._values[var] for var in self._asked])
        block = relax.DataflowBlock([*self._bindings, relax.VarBinding(result, whole)])
        main = relax.Function(self._params, relax.SeqExpr([block], result), result.ty)
        mod = IRModule({"main": main.with_attr("global_symbol", "main")})
        mod, _ = integerize(mod, numerics)
        zeros = [np.zeros(shape_of(param), str(param.ty.dtype)) for param in self._params]
        numbers = compute(mod, zeros)
        return {var: each.reshape(-1) for var, each in zip(self._asked, numbers, strict=True)}

    def _needed(self) -> set[Var]:
        """Return the variables with constant channels from which the requested values are computed."""
        needed = set(self._asked)
        for flow in reversed(self._flows.found):
            if flow.var in needed:
                data = [] if flow.product is None or not flow.product.tracked else [flow.product.data]
                operands = {*(link.operand for link in flow.links), *data}
                needed |= {var for var in operands if var in self._hopeful and self._hopeful[var].any()}
        return needed

    def _emit(self, expr: Expr, like: Call) -> Var:
        expr = self._builder.normalize(expr)
        if isinstance(expr, Var):
            return expr
        var = relax.DataflowVar("lv", expr.ty)
        value = with_source(expr, sources_of(like)) if isinstance(expr, Call) else expr
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def _param(self, count: int, dtype: str) -> Var:
        param = Var(f"p{len(self._params)}", relax.TensorType((1, count, 1, 1), dtype))
        self._params.append(param)
        return param

    def _value(self, var: Var, count: int) -> Var:
        """Return a value for one position; a value without constant channels becomes a parameter, equally quantised."""
        if var not in self._values:
            call = self._flows.calls.get(var)
            if name_of(var if call is None else call) == "relax.dequantize" and call is not None:
                source, scale, zero_point = call.args
                if isinstance(scale, GenericConst) and shape_of(scale) in ((), (1,)):
                    param = self._param(count, str(source.ty.dtype))
                    value = with_attrs(call, [param, scale, zero_point], axis=1)
                    self._values[var] = self._emit(value, call)
                    return self._values[var]
            self._values[var] = self._param(count, str(var.ty.dtype))
        return self._values[var]

    def _call(self, flow: Flow) -> Expr:
        if flow.product is not None:
            return self._product(flow.product, flow)
        operands = [
            self._value(link.operand, shape_of(link.operand)[self._flows.axes[link.operand]])
            for link in flow.links
        ]
        if flow.node.name == "relax.concat":
            return relax.op.concat(operands, axis=1) if flow.constant == "each" else operands[0]
        if flow.node.name in ("relax.quantize", "relax.dequantize", "relax.nn.prelu"):
            return flow.node.put([operands[0], *flow.node.operands[1:]], axis=1)
        if flow.sliced:
            return self._elementwise(flow)
        if flow.window is not None:
            return self._average(flow, operands[0], flow.window)
        (link,) = flow.links
        if link.inside.size == operands[0].ty.shape[1] and (link.inside == np.arange(link.inside.size)).all():
            return operands[0]
        return relax.op.take(operands[0], tensor_const(link.inside.astype(np.int64)), axis=1, mode="clip")

    def _elementwise(self, flow: Flow) -> Call:
        rank = len(shape_of(flow.var))
        operands: list[Expr] = []
        for operand, sliced in zip(flow.node.operands, flow.sliced, strict=True):
            static = static_of(operand, self._flows.statics)
            if static is None:
                shape = shape_of(operand)
                at = flow.axis - (rank - len(shape))
                operands.append(self._value(operand, shape[at] if at >= 0 else 1))
            else:
                operands.append(self._static(_line(static, sliced), flow))
        return flow.node.put(operands)

    def _average(self, flow: Flow, data: Var, window: tuple[int, int]) -> Call:
        """Return a sum or average over as many equal numbers as in the model, so that the rounding is equal."""
        spread = self._emit(relax.op.broadcast_to(data, [1, data.ty.shape[1], *window]), flow.node.call)
        call = flow.node.call
        if flow.node.name in ("relax.mean", "relax.sum"):
            return with_attrs(call, [spread], axis=[2, 3], keepdims=True)
        places: dict[str, Any] = {"layout": "NCHW", "out_layout": "NCHW"}
        if flow.node.name == "relax.nn.avg_pool2d":
            places |= {"pool_size": list(window), "strides": [1, 1]}
        return with_attrs(call, [spread], **places)

    def _static(self, static: Static, flow: Flow) -> Expr:
        expr = static.expr()
        return self._emit(expr, flow.node.call) if isinstance(expr, Call) else expr

    def _product(self, product: WeightedProduct, flow: Flow) -> Call:
        """Return a product restricted to constant channels, with the taps of each filter summed to a single tap."""
        at = product.at
        filters = self._hopeful[flow.var].reshape(-1, 1)
        taps = np.where(filters, product.sums, 0).reshape(at.outputs, -1, 1, 1)
        weight = product.weight
        if weight.scale is None:
            static = Static(taps.astype(weight.data.dtype))
        else:
            zero = None if weight.zero_point is None else np.zeros(weight.zero_point.shape, np.int32)
            static = replace(weight, data=taps.astype(np.int32), zero_point=zero, axis=0)
        data = self._value(product.data, at.inputs)
        return relax.op.nn.conv2d(data, self._static(static, flow), groups=at.groups)


def _line(static: Static, axis: int | None) -> Static:
    """Return a constant at one position along all axes except channels: [1, channels, 1, 1] or [1, 1, 1, 1]."""
    data: np.ndarray[Any, Any] = static.data
    first = tuple(slice(None) if a == axis else 0 for a in range(data.ndim))
    line = replace(static, data=data[first].reshape(1, -1, 1, 1), axis=1)
    if not static.is_per_axis or static.axis == axis:
        return line
    scale, zero = (
        None if part is None else part.reshape(-1)[:1] for part in (static.scale, static.zero_point)
    )
    return replace(line, scale=scale, zero_point=zero)
