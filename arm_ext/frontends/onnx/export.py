# SPDX-License-Identifier: Apache-2.0
"""A model of any format as ONNX, for onnxruntime and its quantiser.

    features.0/conv2d, features.1/batch_norm    →    Conv "features.0/conv2d"

The module is made canonical before, so that what a format writes as several operators is one where ONNX has it. Nodes
are named after the source's; of several nodes with the same source, the first that computes has its very name. A bias
is part of its convolution or product, as integers have it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from tvm import relax
from tvm.ir import Call, Constant, Expr, TupleGetItem, Var
from tvm.relax.analysis import free_vars

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.graph import sizes_of
from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.ir.calls import CALL_TIR, array_of, name_of
from relay_passes.ir.sources import bindings_of, sources_of
from relay_passes.programs.control_flow import has_control_flow

_OPSET, _IR_VERSION = 20, 9

_MOVES = {"reshape", "permute_dims", "expand_dims", "squeeze", "broadcast_to", "astype"}
"""Relax operators that compute nothing; what computes gets the name of the source's node."""

_Write = Callable[["_Writer", Call], "str | list[str]"]
"""Writer of a call's nodes; returns the name of its result, or of each field of a tuple."""


_CONTROL = frozenset(
    {"if", "cond", "case", "while", "while_loop", "scan", "loop", "map_impl", "associative_scan"}
)
"""Operators of control flow, without their dialect, in lower case."""


def to_onnx(model: ImportedModel) -> onnx.ModelProto:
    """Return a model as ONNX, with inputs, outputs and node names of the source.

    Args:
        model: A model without control flow. States are inputs and outputs.

    Raises:
        ModelError: It has control flow, or operators that ONNX lacks; the message names their nodes.
    """
    if has_control_flow(model.mod):
        control = [
            f"{op} '{name}'" for name, op in model.nodes.items() if op.rpartition(".")[2].lower() in _CONTROL
        ]
        at = f" ({', '.join(control[:3])}{', …' if len(control) > 3 else ''})" if control else ""
        raise ModelError(
            f"{model.name}: has branches or loops{at}, which are not written as ONNX: unroll them before the export"
        )
    main = canonicalize(model.mod)["main"]
    bindings = bindings_of(main)
    writer = _Writer(bindings)
    for param, spec in zip(main.params, model.inputs, strict=True):
        writer.names[param] = [spec.name]
    unsupported = [b.value for b in bindings if isinstance(b.value, Call) and _writer_of(b.value) is None]
    if unsupported:
        found = {_operator(value): ", ".join(sources_of(value)) for value in unsupported}
        said = "; ".join(f"{name} ({nodes})" for name, nodes in found.items())
        raise ModelError(f"{model.name}: has operators that are not written as ONNX: {said}")
    for binding in bindings:
        writer.write(binding)
    results = writer.fields(main.body.body)
    for name, spec in zip(results, model.outputs, strict=True):
        writer.nodes.append(helper.make_node("Identity", [name], [spec.name], writer.node_name(spec.name)))
    graph = helper.make_graph(
        writer.nodes, model.name, [*map(_info, model.inputs)], [*map(_info, model.outputs)], writer.constants
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def _info(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, _kind(spec.dtype), spec.shape)


def _kind(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _operator(value: Expr) -> str:
    """Return the name of the operator that an expression calls; of a call of a PrimFunc, the PrimFunc's name."""
    name = name_of(value)
    return str(value.args[0].name_hint) if name == CALL_TIR else name.removeprefix("relax.")


def _writer_of(call: Call) -> _Write | None:
    return _WRITERS.get(name_of(call))


class _Writer:
    """The nodes and constants of a graph so far.

    Attributes:
        nodes: The nodes.
        constants: The initialisers.
        names: Variable → the names of its tensors, several of a tuple.
    """

    def __init__(self, bindings: Sequence[relax.Binding]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names: dict[Var, list[str]] = {}
        self._source = ""
        self._taken: set[str] = set()
        self._computing = {
            name
            for binding in bindings
            if isinstance(binding.value, Call) and _operator(binding.value) not in _MOVES
            for name in sources_of(binding.value)[:1]
        }
        self._reads = Counter(var for binding in bindings for var in free_vars(binding.value))
        self._products: dict[Var, tuple[onnx.NodeProto, int]] = {}

    def write(self, binding: relax.Binding) -> None:
        """Write the nodes of a binding, whose operator has a writer if it is a call."""
        value = binding.value
        write = _writer_of(value) if isinstance(value, Call) else None
        if write is None:
            self.names[binding.var] = self.fields(value)
            return
        self._source = next(iter(sources_of(value)), "")
        known = len(self.nodes)
        found = self._biased(value) or write(self, value)
        self.names[binding.var] = [found] if isinstance(found, str) else found
        for node in self.nodes[known:]:
            if node.op_type in ("Conv", "MatMul") and (axis := _channels(value)) is not None:
                self._products[binding.var] = node, axis

    def _biased(self, call: Call) -> str | None:
        """Make a constant that is added per channel part of the product before it; return the product's result."""
        if _operator(call) != "add" or "float" not in str(call.ty.dtype):
            return None
        for product, bias in (call.args, reversed(call.args)):
            if product not in self._products or self._reads[product] > 1 or not isinstance(bias, Constant):
                continue
            node, axis = self._products[product]
            array, shape = bias.value.numpy(), [1] * len(product.ty.shape)
            shape[axis] = int(product.ty.shape[axis])
            if [1] * (len(shape) - array.ndim) + [*array.shape] == shape:
                node.op_type = {"MatMul": "Gemm"}.get(node.op_type, node.op_type)
                node.input.append(self.constant(array.reshape(-1)))
                return self.names[product][0]
        return None

    def fields(self, value: Expr) -> list[str]:
        """Return the names of a tensor, or of the fields of a tuple."""
        if isinstance(value, relax.Tuple):
            return [name for field in value.fields for name in self.fields(field)]
        if isinstance(value, TupleGetItem):
            return [self.fields(value.tuple_value)[value.index]]
        return self.names[value] if isinstance(value, Var) else [self.name(value)]

    def name(self, value: Expr) -> str:
        """Return the name of a tensor; a constant becomes an initialiser."""
        if not isinstance(value, Constant):
            return self.fields(value)[0]
        return self.constant(value.value.numpy())

    def constant(self, array: npt.ArrayLike) -> str:
        """Add an initialiser, and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def node_name(self, source: str) -> str:
        """Return an unused name for a node."""
        free = (
            name for name in chain([source], (f"{source}#{k}" for k in count(2))) if name not in self._taken
        )
        self._taken.add(name := next(free))
        return name

    def emit(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node, and return its only output."""
        return self.emit_all(op, inputs, 1, **attributes)[0]

    def emit_all(self, op: str, inputs: Sequence[str], number: int, **attributes: Any) -> list[str]:
        """Add a node, and return its outputs."""
        moves = op in ("Reshape", "Transpose", "Cast") and self._source in self._computing
        name = self.node_name(f"{self._source}/{op}" if moves else self._source or op)
        outputs = [f"{name}/{op}" if number == 1 else f"{name}/{op}_{k}" for k in range(number)]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name, **attributes))
        return outputs

    def permuted(self, name: str, order: Sequence[int]) -> str:
        """Return a tensor with its axes in another order."""
        return name if [*order] == sorted(order) else self.emit("Transpose", [name], perm=[*order])

    def channels_first(self, call: Call, name: str, layout: str) -> tuple[str, list[int]]:
        """Return an image with channels in its second axis, and the order of axes that brings it back."""
        spatial = [letter for letter in layout if letter not in "NC"]
        wanted = ["N", "C", *spatial]
        return self.permuted(name, [layout.index(each) for each in wanted]), [
            wanted.index(each) for each in layout
        ]


def _channels(call: Call) -> int | None:
    """Return the axis of a product's result along which it can have a bias."""
    if "conv" in name_of(call):
        return str(call.attrs.data_layout).index("C")
    weights = call.args[-1]
    return (
        1 if isinstance(weights, Constant) and weights.value.numpy().ndim == len(call.ty.shape) == 2 else None
    )


def _same(op: str) -> _Write:
    return lambda w, call: w.emit(op, [w.name(x) for x in call.args])


def _reduction(op: str) -> _Write:
    def write(w: _Writer, call: Call) -> str:
        axes = range(len(call.args[0].ty.shape)) if call.attrs.axis is None else map(int, call.attrs.axis)
        given = [w.name(call.args[0]), w.constant(np.array([*axes], np.int64))]
        return w.emit(op, given, keepdims=int(call.attrs.keepdims))

    return write


def _arg(op: str) -> _Write:
    def write(w: _Writer, call: Call) -> str:
        return w.emit(
            op, [w.name(call.args[0])], axis=int(call.attrs.axis), keepdims=int(call.attrs.keepdims)
        )

    return write


def _variance(w: _Writer, call: Call) -> str:
    x, axes = w.name(call.args[0]), w.constant(np.array([*map(int, call.attrs.axis)], np.int64))
    centred = w.emit("Sub", [x, w.emit("ReduceMean", [x, axes], keepdims=1)])
    return w.emit("ReduceMean", [w.emit("Mul", [centred, centred]), axes], keepdims=int(call.attrs.keepdims))


def _reshape(w: _Writer, call: Call) -> str:
    shape = np.array(sizes_of(call), np.int64)
    return w.emit("Reshape", [w.name(call.args[0]), w.constant(shape)], allowzero=int(0 in shape))


def _expand(w: _Writer, call: Call) -> str:
    return w.emit("Expand", [w.name(call.args[0]), w.constant(np.array(sizes_of(call), np.int64))])


def _full_like(w: _Writer, call: Call) -> str:
    shape = w.constant(np.array(sizes_of(call), np.int64))
    value = w.emit("Cast", [w.name(call.args[1])], to=_kind(str(call.ty.dtype)))
    return w.emit("Expand", [value, shape])


def _cast(w: _Writer, call: Call) -> str:
    return w.emit("Cast", [w.name(call.args[0])], to=_kind(str(call.ty.dtype)))


def _clip(w: _Writer, call: Call) -> str:
    x, dtype = call.args[0], np.dtype(str(call.ty.dtype))
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    bounds = [float(np.clip(float(bound.value), limits.min, limits.max)) for bound in call.args[1:]]
    return w.emit("Clip", [w.name(x), *(w.constant(np.array(bound, dtype)) for bound in bounds)])


def _integers(field: Expr) -> list[int]:
    return [int(value) for value in field.fields]


def _slice(w: _Writer, call: Call) -> str:
    lists = [_integers(field) for field in call.args[1:]]
    axes, begins, ends, steps = [*lists, [1] * len(lists[0])][:4]
    bounds = (w.constant(np.array(values, np.int64)) for values in (begins, ends, axes, steps))
    return w.emit("Slice", [w.name(call.args[0]), *bounds])


def _flip(w: _Writer, call: Call) -> str:
    values = (-1, -(2**62), int(call.attrs.axis), -1)
    return w.emit("Slice", [w.name(call.args[0]), *(w.constant(np.array([v], np.int64)) for v in values)])


def _split(w: _Writer, call: Call) -> list[str]:
    axis = int(call.attrs.axis)
    sizes = np.array([int(field.shape[axis]) for field in call.ty.fields], np.int64)
    return w.emit_all("Split", [w.name(call.args[0]), w.constant(sizes)], len(sizes), axis=axis)


def _take(w: _Writer, call: Call) -> str:
    x, index = call.args
    axis = call.attrs.axis
    return w.emit("Gather", [w.name(x), w.name(index)], axis=0 if axis is None else int(axis))


def _pad(w: _Writer, call: Call) -> str:
    widths, dtype = [*map(int, call.attrs.pad_width)], str(call.ty.dtype)
    pads = w.constant(np.array([*widths[::2], *widths[1::2]], np.int64))
    value = w.constant(np.array(float(call.attrs.pad_value), dtype))
    return w.emit("Pad", [w.name(call.args[0]), pads, value], mode=str(call.attrs.pad_mode))


def _weights(w: _Writer, value: Expr, layout: str, wanted: Sequence[str]) -> str:
    """Return a convolution's weights with their axes as ONNX has them."""
    order = [layout.index(letter) for letter in wanted]
    if isinstance(value, Constant):
        return w.constant(value.value.numpy().transpose(order))
    return w.permuted(w.name(value), order)


def _convolution(op: str, filters: str) -> _Write:
    """Return the writer of convolutions, whose filters have the axes `filters` and then the spatial ones in ONNX."""

    def write(w: _Writer, call: Call) -> str:
        a, layout = call.attrs, str(call.attrs.data_layout)
        x, back = w.channels_first(call, w.name(call.args[0]), layout)
        spatial = [letter for letter in layout if letter not in "NC"]
        weights = _weights(w, call.args[1], str(a.kernel_layout), [*filters, *spatial])
        more = {"output_padding": a.output_padding} if op == "ConvTranspose" else {}
        window = _integer_lists(strides=a.strides, pads=a.padding, dilations=a.dilation, **more)
        return w.permuted(w.emit(op, [x, weights], group=int(a.groups), **window), back)

    return write


def _integer_lists(**values: Any) -> dict[str, Any]:
    return {name: [*map(int, each)] for name, each in values.items()}


def _pool(op: str) -> _Write:
    def write(w: _Writer, call: Call) -> str:
        a = call.attrs
        x, back = w.channels_first(call, w.name(call.args[0]), str(a.layout))
        attributes = _integer_lists(
            kernel_shape=a.pool_size, strides=a.strides, pads=a.padding, dilations=a.dilation
        )
        attributes["ceil_mode"] = int(a.ceil_mode)
        if op == "AveragePool":
            attributes["count_include_pad"] = int(a.count_include_pad)
        return w.permuted(w.emit(op, [x], **attributes), back)

    return write


def _global_pool(w: _Writer, call: Call) -> str:
    a = call.attrs
    if a.output_size is None or any(int(size) != 1 for size in a.output_size):
        raise ModelError(
            f"{', '.join(sources_of(call))}: an adaptive pool to {a.output_size} is not written as ONNX"
        )
    x, back = w.channels_first(call, w.name(call.args[0]), str(a.layout))
    return w.permuted(w.emit("GlobalAveragePool", [x]), back)


def _batch_norm(w: _Writer, call: Call) -> list[str]:
    axis, rank = int(call.attrs.axis), len(call.args[0].ty.shape)
    order = [k for k in range(rank) if k != axis]
    order.insert(1, axis)
    given = [w.permuted(w.name(call.args[0]), order), *(w.name(x) for x in call.args[1:])]
    y = w.emit("BatchNormalization", given, epsilon=float(call.attrs.epsilon))
    return [w.permuted(y, [order.index(k) for k in range(rank)])] * 3


def _layer_norm(w: _Writer, call: Call) -> str:
    rank = len(call.ty.shape)
    axes = sorted(int(axis) % rank for axis in call.attrs.axes)
    if axes != [*range(axes[0], rank)]:
        raise ModelError(
            f"{', '.join(sources_of(call))}: a layer norm over inner axes is not written as ONNX"
        )
    given = [w.name(x) for x in call.args]
    return w.emit("LayerNormalization", given, axis=axes[0], epsilon=float(call.attrs.epsilon))


def _group_norm(w: _Writer, call: Call) -> str:
    x, gain, shift = call.args
    shape, groups = sizes_of(x), int(call.attrs.num_groups)
    rows = w.emit("Reshape", [w.name(x), w.constant(np.array([shape[0], groups, -1], np.int64))])
    ones, zeros = w.constant(np.ones(groups, np.float32)), w.constant(np.zeros(groups, np.float32))
    y = w.emit("InstanceNormalization", [rows, ones, zeros], epsilon=float(call.attrs.epsilon))
    y = w.emit("Reshape", [y, w.constant(np.array(shape, np.int64))])
    wide = w.constant(np.array([-1, *[1] * (len(shape) - 2)], np.int64))
    gain, shift = (w.emit("Reshape", [w.name(v), wide]) for v in (gain, shift))
    return w.emit("Add", [w.emit("Mul", [y, gain]), shift])


def _instance_norm(w: _Writer, call: Call) -> str:
    return w.emit("InstanceNormalization", [w.name(x) for x in call.args], epsilon=float(call.attrs.epsilon))


def _rms_norm(w: _Writer, call: Call) -> str:
    x, gain = (w.name(each) for each in call.args)
    axes = w.constant(np.array([*map(int, call.attrs.axes)], np.int64))
    mean = w.emit("ReduceMean", [w.emit("Mul", [x, x]), axes], keepdims=1)
    epsilon = w.constant(np.array(float(call.attrs.epsilon), str(call.ty.dtype)))
    return w.emit("Mul", [w.emit("Div", [x, w.emit("Sqrt", [w.emit("Add", [mean, epsilon])])]), gain])


def _silu(w: _Writer, call: Call) -> str:
    x = w.name(call.args[0])
    return w.emit("Mul", [x, w.emit("Sigmoid", [x])])


def _resize(w: _Writer, call: Call) -> str:
    a = call.attrs
    x, back = w.channels_first(call, w.name(call.args[0]), str(a.layout))
    shape = sizes_of(call)
    sizes = w.constant(np.array([shape[str(a.layout).index(letter)] for letter in "NCHW"], np.int64))
    mode = str(a.method).removesuffix("_neighbor")
    attributes: dict[str, Any] = {"coordinate_transformation_mode": str(a.coordinate_transformation_mode)}
    if mode == "nearest":
        # As `topi.image.resize2d` reads no rounding method.
        aligned = attributes["coordinate_transformation_mode"] == "align_corners"
        attributes["nearest_mode"] = str(a.rounding_method) or ("round_prefer_ceil" if aligned else "floor")
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": float(a.cubic_alpha), "exclude_outside": int(a.cubic_exclude)}
    y = w.emit("Resize", [x, "", "", sizes], mode=mode, **attributes)
    return w.permuted(y, back)


def _quantize(op: str) -> _Write:
    def write(w: _Writer, call: Call) -> str:
        data, scale, zero = call.args
        axis = int(call.attrs.axis) % max(len(data.ty.shape), 1)
        # ONNX wants the zero point in the type of the integers, which for sums (int32) Relax does not.
        wanted = str((data if op == "DequantizeLinear" else call).ty.dtype)
        point = w.name(zero) if str(zero.ty.dtype) == wanted else w.constant(array_of(zero).astype(wanted))
        return w.emit(op, [w.name(data), w.name(scale), point], axis=axis)

    return write


def _one_hot(w: _Writer, call: Call) -> str:
    index, on, off = call.args
    values = np.array([float(off.value), float(on.value)], str(call.ty.dtype))
    depth = w.constant(np.array(int(call.attrs.depth), np.int64))
    return w.emit("OneHot", [w.name(index), depth, w.constant(values)], axis=int(call.attrs.axis))


def _scatter(op: str) -> _Write:
    def write(w: _Writer, call: Call) -> str:
        reduction = str(call.attrs.reduction)
        axis = {"axis": int(call.attrs.axis)} if op == "ScatterElements" else {}
        known = {"reduction": "none" if reduction == "update" else reduction, **axis}
        return w.emit(op, [w.name(x) for x in call.args], **known)

    return write


def _trunc(w: _Writer, call: Call) -> str:
    x = w.name(call.args[0])
    return w.emit("Mul", [w.emit("Sign", [x]), w.emit("Floor", [w.emit("Abs", [x])])])


def _leaky_relu(w: _Writer, call: Call) -> str:
    return w.emit("LeakyRelu", [w.name(call.args[0])], alpha=float(call.attrs.alpha))


def _floor_divide(w: _Writer, call: Call) -> str:
    found = w.emit("Div", [w.name(x) for x in call.args])
    if "float" not in str(call.ty.dtype):
        raise ModelError(
            f"{', '.join(sources_of(call))}: a floored division of integers is not written as ONNX"
        )
    return w.emit("Floor", [found])


def _floor_mod(w: _Writer, call: Call) -> str:
    if "float" in str(call.ty.dtype):
        raise ModelError(
            f"{', '.join(sources_of(call))}: a floored remainder of floats is not written as ONNX"
        )
    return w.emit("Mod", [w.name(x) for x in call.args])


def _along(op: str) -> _Write:
    return lambda w, call: w.emit(op, [w.name(x) for x in call.args], axis=int(call.attrs.axis))


_NAMES = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "add": "Add",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "bitwise_and": "BitwiseAnd",
    "bitwise_not": "BitwiseNot",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "divide": "Div",
    "equal": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "isinf": "IsInf",
    "isnan": "IsNaN",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negative": "Neg",
    "nn.gelu": "Gelu",
    "nn.relu": "Relu",
    "nn.softplus": "Softplus",
    "power": "Pow",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
    "where": "Where",
}
"""Relax operator → ONNX's with the same operands, without attributes."""

_WRITERS: dict[str, _Write] = {
    f"relax.{name}": write
    for name, write in {
        **{name: _same(op) for name, op in _NAMES.items()},
        **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten"), _reshape),
        **{f"nn.conv{rank}d": _convolution("Conv", "OI") for rank in (1, 2, 3)},
        **{f"nn.conv{rank}d_transpose": _convolution("ConvTranspose", "IO") for rank in (1, 2)},
        **{f"nn.max_pool{rank}d": _pool("MaxPool") for rank in (1, 2, 3)},
        **{f"nn.avg_pool{rank}d": _pool("AveragePool") for rank in (1, 2, 3)},
        "argmax": _arg("ArgMax"),
        "argmin": _arg("ArgMin"),
        "astype": _cast,
        "broadcast_to": _expand,
        "clip": _clip,
        "concat": lambda w, call: w.emit("Concat", w.fields(call.args[0]), axis=int(call.attrs.axis)),
        "cumsum": lambda w, call: w.emit(
            "CumSum",
            [w.name(call.args[0]), w.constant(np.array(int(call.attrs.axis), np.int64))],
            exclusive=int(bool(call.attrs.exclusive)),
        ),
        "dequantize": _quantize("DequantizeLinear"),
        "flip": _flip,
        "full_like": _full_like,
        "floor_divide": _floor_divide,
        "floor_mod": _floor_mod,
        "gather_elements": _along("GatherElements"),
        "image.resize2d": _resize,
        "max": _reduction("ReduceMax"),
        "mean": _reduction("ReduceMean"),
        "min": _reduction("ReduceMin"),
        "mod": lambda w, call: w.emit("Mod", [w.name(x) for x in call.args], fmod=1),
        "nn.adaptive_avg_pool2d": _global_pool,
        "nn.batch_norm": _batch_norm,
        "nn.gelu_tanh": lambda w, call: w.emit("Gelu", [w.name(call.args[0])], approximate="tanh"),
        "nn.group_norm": _group_norm,
        "nn.instance_norm": _instance_norm,
        "nn.layer_norm": _layer_norm,
        "nn.leakyrelu": _leaky_relu,
        "nn.log_softmax": _along("LogSoftmax"),
        "nn.pad": _pad,
        "nn.rms_norm": _rms_norm,
        "nn.silu": _silu,
        "nn.softmax": _along("Softmax"),
        "not_equal": lambda w, call: w.emit("Not", [w.emit("Equal", [w.name(x) for x in call.args])]),
        "one_hot": _one_hot,
        "permute_dims": lambda w, call: w.permuted(
            w.name(call.args[0]), [*map(int, call.attrs.axes or reversed(range(len(call.ty.shape))))]
        ),
        "prod": _reduction("ReduceProd"),
        "quantize": _quantize("QuantizeLinear"),
        "rsqrt": lambda w, call: w.emit("Reciprocal", [w.emit("Sqrt", [w.name(call.args[0])])]),
        "scatter_elements": _scatter("ScatterElements"),
        "scatter_nd": _scatter("ScatterND"),
        "split": _split,
        "strided_slice": _slice,
        "sum": _reduction("ReduceSum"),
        "take": _take,
        "tile": lambda w, call: w.emit(
            "Tile", [w.name(call.args[0]), w.constant(np.array([*map(int, call.attrs.repeats)], np.int64))]
        ),
        "trunc": _trunc,
        "variance": _variance,
    }.items()
}
"""Relax operator → its writer."""
