# SPDX-License-Identifier: Apache-2.0
"""Rewrite of products of dynamically quantised data to products of 8-bit integers.

    matmul(astype(q) - z, W)               →    linear_dynamic(q, z, W)     q of 8 bits, z int32, W a constant
    matmul(astype(q) - z, astype(p) - y)   →    matmul_dynamic(q, p, z, y)  z and y of one element
    conv2d(astype(q) - z, W), 1 x 1        →    linear_dynamic(q, z, W)
    conv2d(astype(q) - z, W)               →    conv_dynamic(q, z, W)       padded with z
    conv2d(astype(q) - z, W), depthwise    →    astype(conv2d(f32(astype(q) - z), f32(W)))
    astype(matmul(q, W) + c)               →    astype(linear_dynamic(q, 0, W) + c)       so do convolutions
    astype(linear_dynamic(...)) · (s · c)  →    (astype(linear_dynamic(...)) · s) · c         c a constant

The left sides are emitted for ONNX's DynamicQuantizeLinear, MatMulInteger and ConvInteger, and for TFLite's hybrid
operators; the left side of the last rule by `integerize`, for products whose result nothing quantises. z and s are
constants, or computed at run time per row or per tensor; a missing z is 0. uint8 weights minus their zero point may
need nine bits, and are then int16. The different order of scales changes results by a unit in the last place. Depthwise
convolutions sum few products, so that float32 is exact.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax.analysis import free_vars, remove_all_unused

from relay_passes.fusion.epilogue_steps import operator_of
from relay_passes.integerize.numerics import Routine
from relay_passes.ir.calls import with_attrs
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.ir.sources import Names, bindings_of, relax_functions, sources_of, union, with_source
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Explanation
from schedules.diagnostic import Diagnostic

NAME = "dynamic_products"

LinearDynamic = Callable[[Sequence[int], str, npt.NDArray[np.integer[Any]], Sequence[int]], Routine]
"""Makes the routine of a matrix product: (data shape, data dtype, weights, zero point shape) → routine."""

MatmulDynamic = Callable[
    [tuple[Sequence[int], Sequence[int]], tuple[str, str], tuple[Sequence[int], Sequence[int]]], Routine
]
"""Makes the routine of a product of two run-time tensors: (shapes, dtypes, zero point shapes) → routine."""

ConvDynamic = Callable[
    [
        Sequence[int],
        str,
        npt.NDArray[np.integer[Any]],
        Sequence[int],
        Mapping[str, Sequence[int]],
        int,
    ],
    Routine,
]
"""Makes the routine of a convolution: as `LinearDynamic`, then strides, padding and dilation by name, and groups."""

_MATRIX = 2
_8_BIT = ("int8", "uint8")
_FLOAT = "float32"
# The maximum of |q - z| for 8-bit q and z.
_REACH = 255
_LARGEST_SUM = 2**31 - 1
_EXACT_IN_FLOAT = 2**24
_PRODUCTS = ("relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d")
_LAYOUTS = {"relax.nn.conv1d": ("NWC", "OWI"), "relax.nn.conv2d": ("NHWC", "OHWI")}


@dataclass(frozen=True)
class _Data:
    """The data q - zero_point of a product.

    Attributes:
        q: int8 or uint8.
        zero_point: Zero point, int32, per row or for all rows.
    """

    q: Expr
    zero_point: Expr

    @property
    def constant(self) -> int | None:
        """The zero point if it is a constant scalar, else None."""
        value = self.zero_point.value.numpy() if isinstance(self.zero_point, GenericConst) else None
        return None if value is None or value.size != 1 else int(value.item())


def dynamic_products(
    mod: IRModule,
    linear: LinearDynamic,
    convolution: ConvDynamic,
    matmul: MatmulDynamic,
    record: RewriteRecord | None = None,
    *,
    sums: bool = False,
) -> IRModule:
    """Rewrite the products of dynamically quantised data in every function of `mod`.

    Args:
        mod: Module in canonical form: A-normal form, every call named, constants folded.
        linear: Returns the routine of a matrix product.
        convolution: Returns the routine of a convolution.
        matmul: Returns the routine of a product of two run-time tensors.
        record: Records applied and rejected rewrites, unless None.
        sums: Whether to rewrite, instead, the products of statically quantised data whose sums become floats; after
            the partition for an NPU, which reads them as they are.
    """
    builder = relax.BlockBuilder(mod)
    applied: list[Names] = []
    rejected: list[Diagnostic] = []
    for gv, func in relax_functions(mod):
        walk = _DynamicProductRewriter(builder, func, linear, convolution, matmul, sums=sums)
        new = walk.function(func)
        applied += walk.applied
        rejected += walk.rejected
        if walk.applied:
            builder.update_func(gv, remove_all_unused(new))
    if record is not None:
        before = record.passes.get(NAME, Explanation((), ()))
        record.passes[NAME] = Explanation((*before.applied, *applied), (*before.rejected, *rejected))
    return builder.get() if applied else mod


class _DynamicProductRewriter:
    """Rewrite of one function in program order."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        func: relax.Function,
        linear: LinearDynamic,
        convolution: ConvDynamic,
        matmul: MatmulDynamic,
        *,
        sums: bool,
    ) -> None:
        self._builder, self._linear, self._convolution, self._matmul = builder, linear, convolution, matmul
        self._values = {b.var: b.value for b in bindings_of(func) if isinstance(b, relax.VarBinding)}
        self._to_float = _converted_sums(func, self._values) if sums else None
        self._products: set[Var] = set()
        self._floats: dict[Var, Var] = {}
        self.applied: list[Names] = []
        self.rejected: list[Diagnostic] = []

    def function(self, func: relax.Function) -> relax.Function:
        blocks = []
        for block in func.body.blocks:
            bindings = [new for binding in block.bindings for new in self._rewritten(binding)]
            blocks.append(type(block)(bindings))
        body = relax.SeqExpr(blocks, func.body.body)
        return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)

    def _rewritten(self, binding: relax.Binding) -> Iterator[relax.Binding]:
        call = binding.value
        match operator_of(call):
            case "relax.matmul" | "relax.nn.conv1d" | "relax.nn.conv2d" if (
                data := self._data(binding)
            ) is not None:
                yield from self._product(binding, data)
            case "relax.matmul" if self._to_float is None and (pair := self._pair(call)) is not None:
                yield from self._run_time_product(binding, *pair)
            case "relax.multiply" if (scales := self._scales(call)) is not None:
                value, scale, constant = scales
                names = union((sources_of(call), sources_of(self._values[scale[0]])))
                by_row = self._bound(relax.op.multiply(value, scale[1]), names)
                yield by_row
                last = relax.op.multiply(by_row.var, constant)
                yield relax.VarBinding(binding.var, with_source(self._builder.normalize(last), names))
            case "relax.astype" if call.args[0] in self._floats and str(call.ty.dtype) == _FLOAT:
                yield relax.VarBinding(binding.var, self._floats[call.args[0]])
            case _:
                yield binding

    def _data(self, binding: relax.VarBinding) -> _Data | None:
        """Return the data of a product of 8-bit integers by constants; None for other products."""
        data, weight = binding.value.args
        if not isinstance(weight, GenericConst) or "int" not in str(binding.value.ty.dtype):
            return None
        if self._to_float is None:
            return self._centred(data)
        known = binding.var in self._to_float and str(data.ty.dtype) in _8_BIT
        return _Data(data, relax.const(np.array(0, np.int32))) if known else None

    def _pair(self, call: Call) -> tuple[_Data, _Data] | None:
        """Return the operands of a product of two tensors of 8-bit integers; None for other products."""
        left, right = (self._centred(value) for value in call.args)
        return None if left is None or right is None or str(call.ty.dtype) != "int32" else (left, right)

    def _centred(self, data: Expr) -> _Data | None:
        """Parse astype(q) - z or astype(q) for 8-bit q; None for other values."""
        centred = self._call(data, "relax.subtract")
        widened = data if centred is None else centred.args[0]
        cast = self._call(widened, "relax.astype")
        if cast is None or str(cast.args[0].ty.dtype) not in _8_BIT:
            return None
        zero = relax.const(np.array(0, np.int32)) if centred is None else centred.args[1]
        return _Data(cast.args[0], zero)

    def _product(self, binding: relax.VarBinding, data: _Data) -> Iterator[relax.Binding]:
        """Yield the bindings that replace the binding of a product."""
        call = binding.value
        values, names = call.args[1].value.numpy(), sources_of(call)
        is_convolution = operator_of(call) != "relax.matmul"
        if is_convolution and _is_pixelwise(call, values):
            is_convolution, values = False, np.ascontiguousarray(values.reshape(len(values), -1).T)
        why = _misfit(data, values, call if is_convolution else None)
        if why is not None:
            self.rejected.append(Diagnostic.of(why[0], *why[1:], nodes=names))
            yield binding
            return
        self.applied.append(names)
        if is_convolution and _is_depthwise(call, values):
            yield from self._in_float(binding)
            return
        values = values.astype(np.int8 if (values == values.astype(np.int8)).all() else np.int16)
        if is_convolution:
            q, routine = yield from self._window(call, data, values)
        else:
            q = data.q
            shape = shape_of(q)
            routine = self._linear(shape, str(q.ty.dtype), values, shape_of(data.zero_point))
        gvar = self._builder.add_func(routine.func, "qdq_dynamic_product")
        constants = [relax.const(array, str(array.dtype)) for array in routine.constants]
        product = relax.call_tir(gvar, [q, data.zero_point, *constants], call.ty)
        self._products.add(binding.var)
        yield relax.VarBinding(binding.var, with_source(self._builder.normalize(product), names))

    def _run_time_product(
        self, binding: relax.VarBinding, left: _Data, right: _Data
    ) -> Iterator[relax.Binding]:
        """Yield the binding that replaces the binding of a product of two run-time tensors."""
        call, both = binding.value, (left, right)
        names = sources_of(call)
        why = next((found for data in both if (found := self._run_time_misfit(data)) is not None), None)
        if why is None and (most := _REACH**2 * (static_shape(left.q) or [0])[-1]) > _LARGEST_SUM:
            why = "sums may overflow 32 bits", f"at most {_LARGEST_SUM}", most
        if why is not None:
            self.rejected.append(Diagnostic.of(why[0], *why[1:], nodes=names))
            yield binding
            return
        self.applied.append(names)
        routine = self._matmul(
            (shape_of(left.q), shape_of(right.q)),
            (str(left.q.ty.dtype), str(right.q.ty.dtype)),
            (shape_of(left.zero_point), shape_of(right.zero_point)),
        )
        gvar = self._builder.add_func(routine.func, "qdq_dynamic_product")
        arguments = [left.q, right.q, left.zero_point, right.zero_point]
        product = relax.call_tir(gvar, arguments, call.ty)
        yield relax.VarBinding(binding.var, with_source(self._builder.normalize(product), names))

    def _run_time_misfit(self, data: _Data) -> tuple[str, object, object] | None:
        """Return why an operand of a product of two run-time tensors is not supported; None if it is."""
        shape, zero = static_shape(data.q), static_shape(data.zero_point)
        if shape is None or zero is None:
            return "shape is not static", None, None
        if len(shape) < _MATRIX:
            return "an operand is no matrix", _MATRIX, len(shape)
        if math.prod(zero) != 1:
            return "zero point is no scalar", 1, zero
        dtype, cast = str(data.q.ty.dtype), self._call(data.zero_point, "relax.astype")
        limits, known = np.iinfo(dtype), data.constant
        in_range = known is not None and limits.min <= known <= limits.max
        if not in_range and (cast is None or str(cast.args[0].ty.dtype) != dtype):
            return "zero point may be out of the range of the data", dtype, known
        return None

    def _window(
        self, call: Call, data: _Data, values: npt.NDArray[Any]
    ) -> Generator[relax.Binding, None, tuple[Expr, Routine]]:
        """Return a convolution's data and routine; yield the binding of a padding if the zero point is constant."""
        q, zero = data.q, data.constant
        window = {
            name: [int(n) for n in getattr(call.attrs, name)] for name in ("strides", "padding", "dilation")
        }
        if zero and any(window["padding"]):
            axes = len(window["padding"]) // 2
            widths = [
                (0, 0),
                *zip(window["padding"][:axes], window["padding"][axes:], strict=True),
                (0, 0),
            ]
            padded = relax.op.nn.pad(q, [n for pair in widths for n in pair], pad_value=zero)
            border = self._bound(padded, sources_of(call))
            yield border
            q, window["padding"] = border.var, [0] * len(window["padding"])
        shape, groups = shape_of(q), int(call.attrs.groups)
        zero_shape = shape_of(data.zero_point)
        return q, self._convolution(shape, str(q.ty.dtype), values, zero_shape, window, groups)

    def _in_float(self, binding: relax.VarBinding) -> Iterator[relax.Binding]:
        """Yield a float32 convolution with a cast to int32; a cast back to float32 is replaced by the convolution."""
        call, names = binding.value, sources_of(binding.value)
        data = self._bound(relax.op.astype(call.args[0], _FLOAT), names)
        yield data
        weight = relax.const(call.args[1].value.numpy().astype(np.float32))
        floats = self._bound(with_attrs(call, [data.var, weight], out_dtype=_FLOAT), names)
        yield floats
        self._floats[binding.var] = floats.var
        whole = relax.op.astype(floats.var, str(call.ty.dtype))
        yield relax.VarBinding(binding.var, with_source(self._builder.normalize(whole), names))

    def _scales(self, call: Call) -> tuple[Expr, tuple[Var, Expr], GenericConst] | None:
        """Parse astype(product) * (s * c): return (cast product, (variable of s * c, s), c); None for other calls."""
        for value, scale in (tuple(call.args), tuple(call.args)[::-1]):
            cast, both = self._call(value, "relax.astype"), self._call(scale, "relax.multiply")
            if cast is None or both is None or cast.args[0] not in self._products:
                continue
            for run_time, constant in (tuple(both.args), tuple(both.args)[::-1]):
                if isinstance(constant, GenericConst) and _is_by_row(run_time, static_shape(value)):
                    return value, (scale, run_time), constant
        return None

    def _call(self, value: Expr, operator: str) -> Call | None:
        """Return the call that a value is bound to if it calls `operator`; else None."""
        call = self._values.get(value) if isinstance(value, Var) else None
        return call if operator_of(call) == operator else None

    def _bound(self, call: Call, names: Names) -> relax.VarBinding:
        call = with_source(self._builder.normalize(call), names)
        return relax.VarBinding(relax.DataflowVar("lv", call.ty), call)


def _converted_sums(func: relax.Function, values: Mapping[Var, Expr]) -> set[Var]:
    """Return the int32 products that are only converted to float32, perhaps after the addition of a constant."""
    readers: dict[Var, list[Var]] = {}
    for var, value in values.items():
        for read in free_vars(value):
            readers.setdefault(read, []).append(var)

    def is_converted(var: Var) -> bool:
        return operator_of(values[var]) == "relax.astype" and str(var.ty.dtype) == _FLOAT

    found = set()
    for var, value in values.items():
        if operator_of(value) not in _PRODUCTS or str(var.ty.dtype) != "int32":
            continue
        reads = readers.get(var, [])
        if len(reads) == 1 and _adds_constant(values[reads[0]]):
            reads = readers.get(reads[0], [])
        if reads and all(map(is_converted, reads)):
            found.add(var)
    return found


def _adds_constant(value: Expr) -> bool:
    return operator_of(value) == "relax.add" and isinstance(value.args[1], GenericConst)


def _is_pixelwise(call: Call, weights: npt.NDArray[Any]) -> bool:
    """Whether a convolution is pixels times a matrix: 1 x 1, stride 1, no padding or groups, channels last."""
    attrs, groups = call.attrs, int(call.attrs.groups)
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout) or "NHWC")
    alone = all(int(n) == 1 for n in attrs.strides) and not any(int(n) for n in attrs.padding)
    return layouts == ("NHWC", "OHWI", "NHWC") and weights.shape[1:3] == (1, 1) and alone and groups == 1


def _is_depthwise(call: Call, weights: npt.NDArray[Any]) -> bool:
    """Whether a convolution is depthwise with sums that float32 represents exactly."""
    return (
        weights.shape[-1] == 1
        and int(call.attrs.groups) > 1
        and _largest(weights, filters=True) < _EXACT_IN_FLOAT
    )


def _largest(weights: npt.NDArray[Any], *, filters: bool) -> int:
    """Return a bound of |sum (q - z) w| for 8-bit q and z, given filters [O, ...] or a matrix [K, N]."""
    others = tuple(range(1, weights.ndim)) if filters else (0,)
    return _REACH * int(np.abs(weights.astype(np.int64)).sum(others).max(initial=0))


def _misfit(data: _Data, weights: npt.NDArray[Any], window: Call | None) -> tuple[str, object, object] | None:
    """Return why a product (with `window`: a convolution) has no routine (reason, limit, actual); None if it has."""
    shape, zero = static_shape(data.q), static_shape(data.zero_point)
    if shape is None or zero is None:
        return "shape is not static", None, None
    if window is None and (weights.ndim != _MATRIX or len(shape) < _MATRIX):
        return "weight is no matrix", _MATRIX, weights.ndim
    if window is not None and (layouts := _layouts(window)) != (known := _LAYOUTS[str(operator_of(window))]):
        return "layout is not channels-last", known, layouts
    one = math.prod(zero) == 1
    if not one and (window is not None or not _is_by_row(data.zero_point, shape)):
        return "zero point is neither per row nor a scalar", (*shape[:-1], 1), zero
    summed = 0 if window is None else tuple(range(1, weights.ndim))
    if (most := int(np.ptp(weights.astype(np.int64), axis=summed).max(initial=0))) > _REACH:
        return "weights of a column differ by more than 8 bits can", f"at most {_REACH}", most
    if (most := _largest(weights, filters=window is not None)) > _LARGEST_SUM:
        return "sums may overflow 32 bits", f"at most {_LARGEST_SUM}", most
    return None


def _layouts(call: Call) -> tuple[str, str]:
    data, kernel, out = (str(getattr(call.attrs, f"{name}_layout")) for name in ("data", "kernel", "out"))
    return (data, kernel) if out in ("", data) else (f"{data} to {out}", kernel)


def _is_by_row(value: Expr, of: tuple[int, ...] | None) -> bool:
    shape = static_shape(value)
    if shape is None or of is None or isinstance(value, GenericConst):
        return False
    return math.prod(shape) == 1 or shape == (*of[:-1], 1)
