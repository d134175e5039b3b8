# SPDX-License-Identifier: Apache-2.0
"""Analysis of which channels of a call's result are computed from which channels of its operands.

    relu, add, max_pool, quantize, …       channel c from channel c of each operand
    concat, split                          channel c from channel c minus an offset
    reshape [N, C, H, W] → [N, C·H·W]      channel c·H·W + i from channel c
    conv2d, matmul                         every channel from all channels (of its group)

Channels are tracked from a convolution or matrix product on, along its output channel axis, through calls that keep
channels separate. All other calls read all channels of their operands, and their results have no tracked channels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, GenericConst, Var
from tvm.relax.analysis import free_vars

from relay_passes.ir.calls import SHAPE_ONLY, BoundCall, name_of, nodes_of
from relay_passes.ir.shapes import axes_of, shape_of, static_shape
from relay_passes.ir.sources import bindings_of
from relay_passes.layout.constants import Static, static_call, static_of
from relay_passes.layout.roles import blocks
from relay_passes.rules.common.linear_calls import (
    ANCHORS,
    Channels,
    channels_of,
    is_transposed,
    padding_of,
)

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

_ELEMENTWISE = tuple(f"relax.{name}" for name in (
    "abs", "add", "clip", "divide", "erf", "exp", "floor", "log", "maximum", "minimum", "multiply", "negative",
    "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu", "nn.softplus", "power", "round", "rsqrt",
    "sigmoid", "sqrt", "square", "subtract", "tanh",
))  # fmt: skip
_ALONG = ("relax.quantize", "relax.dequantize", "relax.nn.prelu")
_REDUCTIONS = ("relax.mean", "relax.sum", "relax.max", "relax.min")
_MATRIX = 2


@dataclass(frozen=True)
class Link:
    """A dependency: channel `outside[i]` of the result is computed from channel `inside[i]` of the operand."""

    operand: Var
    inside: Index
    outside: Index


@dataclass(frozen=True)
class WeightedProduct:
    """A convolution or matrix product with constant weights.

    Attributes:
        data: The data operand.
        weight: The constant weights.
        at: Channel axes of data and weights, and numbers of channels and groups.
        tracked: Whether channels of the data are tracked, so that they can be removed.
        exact_border: Whether every output reads all taps: there is no padding, and it is not transposed.
    """

    data: Var
    weight: Static
    at: Channels
    tracked: bool
    exact_border: bool

    @cached_property
    def used(self) -> Mask:
        """Whether each output channel has a nonzero weight for each input channel of its group."""
        return np.asarray((self._taps != (0 if self.weight.scale is None else self._zero_point)).any(-1))

    @property
    def sums(self) -> Array:
        """The sum of the taps, [outputs, inputs / groups], which is the factor of a constant input channel.

        For quantised weights int64, with the zero point subtracted; else float64.
        """
        if self.weight.scale is None:
            return np.asarray(self._taps.sum(-1, dtype=np.float64))
        window = self._taps.shape[-1]
        return np.asarray(
            self._taps.sum(-1, dtype=np.int64) - window * self._zero_point[..., 0].astype(np.int64)
        )

    @property
    def _taps(self) -> Array:
        """The stored weights as [outputs, inputs / groups, taps]."""
        moved = np.moveaxis(self.weight.data, (self.at.weight_out, self.at.weight_in), (0, 1))
        return moved.reshape(*moved.shape[:2], -1)

    @property
    def _zero_point(self) -> Array:
        return np.asarray(0 if self.weight.zero_point is None else self.weight.zero_point).reshape(-1, 1, 1)


@dataclass(frozen=True)
class Flow:
    """The channels of one result of a call.

    Attributes:
        node: The call that computes the result.
        var: The variable of the result.
        axis: The channel axis of the result.
        links: The operand channels from which each result channel is computed; for a grouped product, the channels that
            must be removed together.
        sliced: For each operand that is a constant with one value per channel, its channel axis; None for other
            operands.
        constant: Condition under which a channel of the result is constant. "each": the channel of each operand is
            constant. "needs": it is also equal to `needs`. "alike": all channels are constant and equal. "factor": as
            "each", or one operand's channel is 0.
        needs: The value for the condition "needs".
        window: Height and width of the window of a sum or average without padding; None for other calls.
        product: The weights of a convolution or matrix product; None for other calls.
        whole: Whether no channel of the result can be removed.
    """

    node: BoundCall
    var: Var
    axis: int
    links: tuple[Link, ...] = ()
    sliced: tuple[int | None, ...] = ()
    constant: Literal["each", "needs", "alike", "factor", "never"] = "each"
    needs: float = 0.0
    window: tuple[int, int] | None = None
    product: WeightedProduct | None = None
    whole: bool = False

    @property
    def count(self) -> int:
        """Number of channels."""
        return shape_of(self.var)[self.axis]


@dataclass
class Flows:
    """The flows of a function.

    Attributes:
        found: The flows in program order.
        axes: Channel axis of each value with tracked channels.
        whole: Values whose channels must all be kept, because a call or the output reads all of them.
        statics: Constant of each value that is known at compile time.
        calls: Call that computes each value.
    """

    found: list[Flow]
    axes: dict[Var, int]
    whole: set[Var]
    statics: dict[Var, Static]
    calls: dict[Var, Call]


def read_flows(func: relax.Function) -> Flows:
    """Return the channel flows of a function in A-normal form."""
    nodes = {node.var: node for node in nodes_of(func)}
    flows = Flows([], {}, set(free_vars(func.body.body)), {}, {var: node.call for var, node in nodes.items()})
    items: set[Var] = set()
    for binding in bindings_of(func):
        if binding.var in items:
            continue
        node = nodes.get(binding.var)
        static = None if node is None else static_call(node.call, flows.statics)
        if static is not None:
            flows.statics[binding.var] = static
            continue
        read = [] if node is None else _flows_of(node, flows)
        if node is None or not read:
            flows.whole.update(free_vars(binding.value))
            continue
        for flow in read:
            flows.found.append(flow)
            flows.axes[flow.var] = flow.axis
            if flow.whole:
                flows.whole.add(flow.var)
        linked = {link.operand for flow in read for link in flow.links}
        linked.update(flow.product.data for flow in read if flow.product is not None and flow.product.tracked)
        flows.whole.update(set(free_vars(node.call)) - linked)
        items.update(var for index, var in node.outputs if index is not None)
    return flows


def _flows_of(node: BoundCall, flows: Flows) -> list[Flow]:
    """Return the flows of a call's results; none if the call reads all channels of its operands."""
    tensors = (*node.operands, *(var for _, var in node.outputs))
    if not node.outputs or any(static_shape(tensor) is None for tensor in tensors):
        return []
    if node.name in ANCHORS:
        return _product(node, flows)
    if node.name == "relax.split":
        return _split(node, flows)
    read = _READERS.get(node.name)
    if read is None or node.outputs[0][0] is not None:
        return []
    flow = read(node, flows)
    return [] if flow is None else [flow]


def _product(node: BoundCall, flows: Flows) -> list[Flow]:
    data, weight = node.operands
    static = static_of(weight, flows.statics)
    if static is None or not isinstance(data, Var) or data in flows.statics:
        return []
    layouts = [str(getattr(node.call.attrs, name, "")) for name in ("data_layout", "kernel_layout")]
    if any(layout and not layout.isalpha() for layout in layouts):
        return []
    if node.name == "relax.matmul" and (
        static.data.ndim != _MATRIX or not _MATRIX <= len(shape_of(data)) == len(shape_of(node.var))
    ):
        return []
    at = channels_of(node.call)
    transposed = is_transposed(node.call)
    if (transposed and at.groups > 1) or (static.is_per_axis and static.axis != at.weight_out):
        return []
    tracked = flows.axes.get(data) == at.data_axis
    exact = not any(padding_of(node.call)) and not transposed
    product = WeightedProduct(data, static, at, tracked, exact)
    grouped = at.groups > 1
    links = (_together(data, at),) if grouped and tracked else ()
    whole = grouped and not tracked
    return [Flow(node, node.var, at.output_axis, links, product=product, whole=whole)]


def _together(data: Var, at: Channels) -> Link:
    """Return the link by which the input and output channels of a group can only be removed together."""
    ins = np.arange(at.inputs).reshape(at.groups, -1)
    outs = np.arange(at.outputs).reshape(at.groups, -1)
    inside = np.concatenate([ins.reshape(-1), np.repeat(ins[:, 0], outs.shape[1])])
    outside = np.concatenate([np.repeat(outs[:, 0], ins.shape[1]), outs.reshape(-1)])
    return Link(data, inside, outside)


def _elementwise(node: BoundCall, flows: Flows) -> Flow | None:
    out = shape_of(node.var)
    missing = [len(out) - len(shape_of(operand)) for operand in node.operands]
    axis = next(
        (flows.axes[x] + m for x, m in zip(node.operands, missing, strict=True) if x in flows.axes), None
    )
    if axis is None:
        return None
    links: list[Link] = []
    sliced: list[int | None] = []
    constant = "factor" if node.name == "relax.multiply" else "each"
    every = np.arange(out[axis])
    for operand, skip in zip(node.operands, missing, strict=True):
        shape, at = shape_of(operand), axis - skip
        wide = at >= 0 and shape[at] != 1
        static = static_of(operand, flows.statics)
        sliced.append(at if static is not None and wide else None)
        if static is not None:
            if static.data.size != (shape[at] if wide else 1):
                constant = "never"
        elif wide and flows.axes.get(operand) == at and shape[at] == out[axis]:
            links.append(Link(operand, every, every))
        elif wide:
            return None
        else:
            constant = "never" if constant == "each" else constant
    if not links:
        return None
    return Flow(node, node.var, axis, tuple(links), tuple(sliced), constant)  # type: ignore[arg-type]


def _along(node: BoundCall, flows: Flows) -> Flow | None:
    data, *parameters = node.operands
    axis = flows.axes.get(data) if isinstance(data, Var) else None
    if axis is None or not all(isinstance(parameter, GenericConst) for parameter in parameters):
        return None
    wide = [shape_of(parameter) not in ((), (1,)) for parameter in parameters]
    if any(wide) and int(node.call.attrs.axis) % len(shape_of(data)) != axis:
        return None
    return _kept(node, data, axis, sliced=(None, *(0 if each else None for each in wide)))


def _kept(node: BoundCall, data: Var, axis: int, to: int | None = None, **more: Any) -> Flow:
    """Return the flow of a call whose result has the same channels as its data."""
    every = np.arange(shape_of(data)[axis])
    return Flow(node, node.var, axis if to is None else to, (Link(data, every, every),), **more)


def _pool(node: BoundCall, flows: Flows) -> Flow | None:
    """Return the flow of a pool; an average of constant channels is constant only without padding."""
    data, attrs = node.operands[0], node.call.attrs
    axis, layout = flows.axes.get(data), str(attrs.layout)
    if axis is None or layout.find("C") != axis:
        return None
    if node.name == "relax.nn.max_pool2d":
        return _kept(node, data, axis)
    whole: tuple[int, int] | None = None
    if node.name == "relax.nn.avg_pool2d" and not any(map(int, attrs.padding)) and not attrs.ceil_mode:
        whole = int(attrs.pool_size[0]), int(attrs.pool_size[1])
    if node.name == "relax.nn.adaptive_avg_pool2d" and [int(size) for size in attrs.output_size or ()] == [
        1,
        1,
    ]:
        whole = shape_of(data)[layout.index("H")], shape_of(data)[layout.index("W")]
    return _kept(node, data, axis, constant="each" if whole else "needs", window=whole)


def _resize(node: BoundCall, flows: Flows) -> Flow | None:
    data, attrs = node.operands[0], node.call.attrs
    axis = flows.axes.get(data)
    # With an extrapolation value other than 0, positions outside of the image are not equal to the channel's constant.
    if axis is None or float(attrs.extrapolation_value) or str(attrs.layout).find("C") != axis:
        return None
    return _kept(node, data, axis, constant="needs")


def _reduce(node: BoundCall, flows: Flows) -> Flow | None:
    data, attrs = node.operands[0], node.call.attrs
    axis, shape = flows.axes.get(data), shape_of(data)
    if axis is None or attrs.axis is None:
        return None
    gone = {int(each) % len(shape) for each in attrs.axis}
    if axis in gone:
        return None
    to = axis if attrs.keepdims else axis - sum(each < axis for each in gone)
    exact = node.name in ("relax.max", "relax.min")
    return _kept(node, data, axis, to, window=None if exact else (math.prod(shape[each] for each in gone), 1))


def _pad(node: BoundCall, flows: Flows) -> Flow | None:
    data, attrs = node.operands[0], node.call.attrs
    axis = flows.axes.get(data)
    if axis is None or any(int(width) for width in attrs.pad_width[2 * axis : 2 * axis + 2]):
        return None
    if str(attrs.pad_mode) != "constant":
        return _kept(node, data, axis)
    return _kept(node, data, axis, constant="needs", needs=float(attrs.pad_value))


def _reshape(node: BoundCall, flows: Flows) -> Flow | None:
    data = node.operands[0]
    axis = flows.axes.get(data)
    if axis is None:
        return None
    before, after = shape_of(data), shape_of(node.var)
    if before[axis] == 1 or 0 in before:
        return None
    old, new = next(pair for pair in blocks(before, after) if axis in pair[0])
    if len(new) != 1:
        return None
    numbers = np.arange(before[axis]).reshape([-1 if a == axis else 1 for a in old])
    inside = np.broadcast_to(numbers, [before[a] for a in old]).reshape(-1)
    return Flow(node, node.var, new[0], (Link(data, inside, np.arange(inside.size)),))


def _permute(node: BoundCall, flows: Flows) -> Flow | None:
    data = node.operands[0]
    axis = flows.axes.get(data)
    return None if axis is None else _kept(node, data, axis, axes_of(node.call).index(axis))


def _concat(node: BoundCall, flows: Flows) -> Flow | None:
    known = [flows.axes.get(operand) for operand in node.operands]
    axis = known[0]
    # All operands must have tracked channels, because others could not be sliced in the same way.
    if axis is None or any(each != axis for each in known) or node.call.attrs.axis is None:
        return None
    sizes = [shape_of(operand)[axis] for operand in node.operands]
    if int(node.call.attrs.axis) % len(shape_of(node.var)) == axis:
        ends = np.cumsum(sizes)
        links = (
            Link(x, np.arange(n), np.arange(end - n, end))
            for x, n, end in zip(node.operands, sizes, ends, strict=True)
        )
        return Flow(node, node.var, axis, tuple(links))
    every = np.arange(sizes[0])
    return Flow(node, node.var, axis, tuple(Link(x, every, every) for x in node.operands), constant="alike")


def _split(node: BoundCall, flows: Flows) -> list[Flow]:
    data = node.operands[0]
    axis, along = flows.axes.get(data), int(node.call.attrs.axis)
    if axis is None:
        return []
    along %= len(shape_of(data))
    found: list[Flow] = []
    start = 0
    for place, (index, var) in enumerate(sorted(node.outputs, key=lambda output: output[0] or 0)):
        if index != place:
            return []
        size = shape_of(var)[axis]
        first = start if along == axis else 0
        found.append(Flow(node, var, axis, (Link(data, np.arange(first, first + size), np.arange(size)),)))
        start += size
    # An unused part has no variable, so its channels cannot be tracked.
    return found if along != axis or start == shape_of(data)[axis] else []


_READERS: dict[str, Callable[[BoundCall, Flows], Flow | None]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_ALONG, _along),
    **dict.fromkeys(("relax.nn.max_pool2d", "relax.nn.avg_pool2d", "relax.nn.adaptive_avg_pool2d"), _pool),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(SHAPE_ONLY, _reshape),
    "relax.image.resize2d": _resize,
    "relax.nn.pad": _pad,
    "relax.permute_dims": _permute,
    "relax.concat": _concat,
}


def has_candidates(flows: Flows) -> bool:
    """Whether a product has a filter or an input channel of zeros, or a constant factor contains a 0.

    If not, no channel of the function is constant or unused.
    """
    for flow in flows.found:
        if flow.product is not None:
            used = flow.product.used
            if not (used.any(1).all() and used.any(0).all()):
                return True
        elif flow.constant == "factor" and any(
            static is not None and not static.data.all()
            for static in (static_of(operand, flows.statics) for operand in flow.node.operands)
        ):
            return True
    return False


def quantized_data(var: Var, flows: Flows) -> tuple[float, bool]:
    """Return (scale, whether there is one) of a dequantised value, traced through layout changes and max pools."""
    call = flows.calls.get(var)
    while call is not None and name_of(call) in (*SHAPE_ONLY, "relax.permute_dims", "relax.nn.max_pool2d"):
        call = flows.calls.get(call.args[0])
    if call is None or name_of(call) != "relax.dequantize" or not isinstance(call.args[1], GenericConst):
        return 1.0, False
    scale = call.args[1].value.numpy()
    return (float(scale.item()), True) if scale.size == 1 else (1.0, False)
