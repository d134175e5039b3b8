# SPDX-License-Identifier: Apache-2.0
"""Products of dynamically quantised data, as products of 8-bit integers.

    matmul(astype(q) - z, W)               →    linear_dynamic(q, z, W)     q of 8 bits, z int32, W a constant of int8
    matmul(astype(q) - z, W), W wider      →    linear_dynamic([q, q], z, [V; W - V])         both of int8
    astype(linear_dynamic(...)) · (s · c)  →    (astype(linear_dynamic(...)) · s) · c         c a constant
    conv2d(astype(q) - z, W), 1 x 1        →    linear_dynamic(q, z, W)
    astype(conv2d(astype(q) - z, W))       →    conv2d(f32(astype(q) - z), f32(W))

So ONNX's DynamicQuantizeLinear and MatMulInteger arrive, and TFLite's hybrid operators. z and s are of run time, one a
row or one for all. Weights of uint8 that their zero point was taken off may have nine bits. The product is the same;
scales in another order round otherwise, by a unit in the last place. Wider convolutions, of which there are float
kernels only, add up exact products in binary32.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax.analysis import remove_all_unused

from relay_passes.fusion.epilogue_steps import operator_of
from relay_passes.integerize.numerics import Routine
from relay_passes.ir.calls import with_attrs
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.ir.sources import Names, bindings_of, relax_functions, sources_of, union, with_source
from relay_passes.rewriter.record import Record
from relay_passes.rewriter.rule import Explanation
from schedules.diagnostic import Diagnostic

NAME = "dynamic_products"

LinearDynamic = Callable[[Sequence[int], str, npt.NDArray[np.int8], Sequence[int]], Routine]
"""From the data's shape and dtype, the weights and the zero point's shape to the product."""

_MATRIX = 2
_8_BIT = ("int8", "uint8")
_FLOAT = "float32"
# |q - z| of 8 bits times |w| of int8.
_LARGEST_PRODUCT = 255 * 128
# Of uint8 with a zero point of uint8.
_LARGEST_WEIGHT = 255
_LARGEST_SUM = 2**31 - 1


def dynamic_products(mod: IRModule, linear_dynamic: LinearDynamic, record: Record | None = None) -> IRModule:
    """Rewrite every function of `mod`.

    Args:
        mod: Canonical: A-normal form, every call named, constants folded.
        linear_dynamic: Makes the product.
        record: Takes note of what was rewritten and what was not, if given.

    Returns:
        The module, the same object if there are none.
    """
    builder = relax.BlockBuilder(mod)
    applied: list[Names] = []
    rejected: list[Diagnostic] = []
    for gv, func in relax_functions(mod):
        walk = _Walk(builder, func, linear_dynamic)
        new = walk.function(func)
        applied += walk.applied
        rejected += walk.rejected
        if walk.applied:
            builder.update_func(gv, remove_all_unused(new))
    if record is not None:
        record.passes[NAME] = Explanation(tuple(applied), tuple(rejected))
    return builder.get() if applied else mod


class _Walk:
    """One function in program order."""

    def __init__(
        self, builder: relax.BlockBuilder, func: relax.Function, linear_dynamic: LinearDynamic
    ) -> None:
        self._builder, self._linear_dynamic = builder, linear_dynamic
        self._values = {b.var: b.value for b in bindings_of(func) if isinstance(b, relax.VarBinding)}
        self._products: set[Var] = set()
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
            case "relax.matmul" | "relax.nn.conv2d" if (found := self._product(call)) is not None:
                *repeated, product = found
                self.applied.append(sources_of(call))
                self._products.add(binding.var)
                yield from repeated
                yield relax.VarBinding(binding.var, product)
            case "relax.multiply" if (scales := self._scales(call)) is not None:
                value, scale, constant = scales
                names = union((sources_of(call), sources_of(self._values[scale[0]])))
                by_row = self._bound(relax.op.multiply(value, scale[1]), names)
                yield by_row
                last = relax.op.multiply(by_row.var, constant)
                yield relax.VarBinding(binding.var, with_source(self._builder.normalize(last), names))
            case "relax.astype" if (convolution := self._convolution(call)) is not None:
                data = self._bound(relax.op.astype(convolution.args[0], _FLOAT), sources_of(convolution))
                yield data
                weight = relax.const(convolution.args[1].value.numpy().astype(np.float32))
                value = with_attrs(convolution, [data.var, weight], out_dtype=_FLOAT)
                names = union((sources_of(convolution), sources_of(call)))
                self.applied.append(names)
                yield relax.VarBinding(binding.var, with_source(self._builder.normalize(value), names))
            case _:
                yield binding

    def _product(self, call: Call) -> tuple[relax.VarBinding | Call, ...] | None:
        """The product of bytes that a matmul is, after a binding for data that it needs several times; or None."""
        data, weight = call.args
        centred = self._call(data, "relax.subtract")
        if centred is None or not isinstance(weight, GenericConst):
            return None
        widened, zero_point = centred.args
        cast = self._call(widened, "relax.astype")
        if cast is None or str(cast.args[0].ty.dtype) not in _8_BIT:
            return None
        q, values = cast.args[0], weight.value.numpy()
        if operator_of(call) != "relax.matmul":
            if not _is_pixelwise(call, values):
                return None
            values = np.ascontiguousarray(values.reshape(len(values), -1).T)
        why = _misfit(q, zero_point, values)
        if why is not None:
            self.rejected.append(Diagnostic.of(why[0], *why[1:], nodes=sources_of(call)))
            return None
        parts, names = _bytes(values), sources_of(call)
        repeated = [] if len(parts) == 1 else [self._bound(relax.op.concat([q] * len(parts), axis=-1), names)]
        q = repeated[0].var if repeated else q
        routine = self._linear_dynamic(
            shape_of(q), str(q.ty.dtype), np.concatenate(parts), shape_of(zero_point)
        )
        gvar = self._builder.add_func(routine.func, "qdq_linear_dynamic")
        constants = [relax.const(array, str(array.dtype)) for array in routine.constants]
        product = relax.call_tir(gvar, [q, zero_point, *constants], call.ty)
        return (*repeated, with_source(self._builder.normalize(product), names))

    def _scales(self, call: Call) -> tuple[Expr, tuple[Var, Expr], GenericConst] | None:
        """Of a product in float, times a scale of run time times a constant: the three, the second with its product."""
        for value, scale in (tuple(call.args), tuple(call.args)[::-1]):
            cast, both = self._call(value, "relax.astype"), self._call(scale, "relax.multiply")
            if cast is None or both is None or cast.args[0] not in self._products:
                continue
            for run_time, constant in (tuple(both.args), tuple(both.args)[::-1]):
                if isinstance(constant, GenericConst) and _is_by_row(run_time, static_shape(value)):
                    return value, (scale, run_time), constant
        return None

    def _convolution(self, cast: Call) -> Call | None:
        """The convolution of 8-bit data with a zero point that is cast to float32, or None."""
        call = self._call(cast.args[0], "relax.nn.conv2d")
        if call is None or cast.args[0] in self._products or str(cast.ty.dtype) != _FLOAT:
            return None
        centred = self._call(call.args[0], "relax.subtract")
        widened = None if centred is None else self._call(centred.args[0], "relax.astype")
        is_8_bit = widened is not None and str(widened.args[0].ty.dtype) in _8_BIT
        return call if is_8_bit and isinstance(call.args[1], GenericConst) else None

    def _call(self, value: Expr, operator: str) -> Call | None:
        """What a value is bound to, if that is a call of the operator."""
        call = self._values.get(value) if isinstance(value, Var) else None
        return call if operator_of(call) == operator else None

    def _bound(self, call: Call, names: Names) -> relax.VarBinding:
        call = with_source(self._builder.normalize(call), names)
        return relax.VarBinding(relax.DataflowVar("lv", call.ty), call)


def _is_pixelwise(call: Call, weights: npt.NDArray[Any]) -> bool:
    """Whether a convolution is a matrix product of its pixels: 1 x 1, one after the other, channels last."""
    attrs, groups = call.attrs, int(call.attrs.groups)
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout) or "NHWC")
    alone = all(int(n) == 1 for n in attrs.strides) and not any(int(n) for n in attrs.padding)
    return layouts == ("NHWC", "OHWI", "NHWC") and weights.shape[1:3] == (1, 1) and alone and groups == 1


def _misfit(q: Expr, zero_point: Expr, weights: npt.NDArray[Any]) -> tuple[str, object, object] | None:
    """Why a product of bytes is none of `linear_dynamic`, with limit and actual value."""
    shape = static_shape(q)
    if shape is None or static_shape(zero_point) is None:
        return "shape is not static", None, None
    if weights.ndim != _MATRIX or len(shape) < _MATRIX:
        return "weight is no matrix", _MATRIX, weights.ndim
    if (most := int(np.abs(weights.astype(np.int64)).max(initial=0))) > _LARGEST_WEIGHT:
        return "weight is wider than the difference of two bytes", _LARGEST_WEIGHT, most
    if isinstance(zero_point, GenericConst) or not _is_by_row(zero_point, shape):
        return "zero point is not one a row or one", (*shape[:-1], 1), static_shape(zero_point)
    if shape[-1] > (most := _LARGEST_SUM // (_LARGEST_PRODUCT * len(_bytes(weights)))):
        return "sums may leave 32 bits", most, shape[-1]
    return None


def _bytes(weights: npt.NDArray[Any]) -> list[npt.NDArray[np.int8]]:
    """Return as few arrays of int8 as have the weights as their sum."""
    info, left = np.iinfo(np.int8), weights.astype(np.int32)
    parts: list[npt.NDArray[np.int32]] = []
    while left.any() or not parts:
        parts.append(np.clip(left, info.min, info.max))
        left = left - parts[-1]
    return [part.astype(np.int8) for part in parts]


def _is_by_row(value: Expr, of: tuple[int, ...] | None) -> bool:
    shape = static_shape(value)
    if shape is None or of is None or isinstance(value, GenericConst):
        return False
    return math.prod(shape) == 1 or shape == (*of[:-1], 1)
