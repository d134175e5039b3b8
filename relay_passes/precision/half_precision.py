# SPDX-License-Identifier: Apache-2.0
"""Conversion to 16 bits of the operators that lose no more accuracy than by the rounding to 16 bits.

    conv2d(x, w)     →    conv2d(f16(x), f16(w)), summed up in binary32
    add(y, c)        →    add(f16(y), f16(c))        if y is such a convolution, or follows one
    softmax(h)       →    softmax(f32(h))

Convolutions and matrix products by weights are computed in 16 bits with sums in binary32. Products of two computed
tensors remain in binary32, and so do transposed convolutions, except those in binary16 that are decomposed into few
ordinary convolutions. In binary16, elementwise operators and data movements have the dtype of their operands. Other
operators remain in binary32: softmax, means, sums and norms, because they sum many terms, and operators that easily
leave the range of binary16, such as exp and squares. Their results are rounded before data movements, so that the
producing kernel can round. In bfloat16 only the products are converted, because Arm has no other bfloat16 arithmetic.
Inputs and outputs of the model keep their dtypes.

Quantised models are not converted, because their scales are not 16-bit numbers. TVM's ToMixedPrecision fails for
operators with a scalar argument (clip), rounds the operands of softmax and other sums, and computes norms, exp and
pooling sums in the dtype of their operands.
"""

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Tuple, TupleGetItem, Var
from tvm.relax.analysis import free_vars

from relay_passes.ir.calls import name_of, with_attrs
from relay_passes.ir.sources import Names, sources_of, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.rewriter.engine import apply_rules
from relay_passes.rules.common.linear_calls import CONVOLUTIONS
from relay_passes.rules.registry import HALF_PRECISION_RULES

FULL = "float32"
Half = Literal["float16", "bfloat16"]

# Operators whose output elements depend on few input elements, and are not much larger than these or their product.
FOLLOWING = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "minimum", "where", "negative", "abs", "sign"),
        *("floor", "ceil", "round", "trunc", "clip", "sqrt", "erf", "tanh", "sigmoid", "sin", "cos"),
        *("nn.relu", "nn.leakyrelu", "nn.prelu", "nn.gelu", "nn.gelu_tanh", "nn.silu"),
        *("max", "min", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
        *("reshape", "squeeze", "expand_dims", "flatten", "nn.batch_flatten", "permute_dims", "broadcast_to"),
        *("concat", "stack", "split", "strided_slice", "take", "tile", "repeat", "flip", "nn.pad"),
        *("nn.pixel_shuffle", "image.resize2d"),
    )
)

_PRODUCTS = (*CONVOLUTIONS, "relax.matmul")

_MOST_PHASES = 16
"""Products that a transposed convolution may become, one for each pixel of a stride."""

# bfloat16 has the exponents of binary32 and 7 bits of fraction.
_LARGEST = {"float16": float(np.finfo(np.float16).max), "bfloat16": (2 - 2.0**-7) * 2.0**127}


def to_half_precision(mod: IRModule, half: Half) -> IRModule:
    """Convert the `main` of a canonical module.

    Args:
        mod: `main` is one dataflow block of named calls. Values of other dtypes than float32 are not changed.
        half: The dtype of the operands of products.
    """
    out = mod.clone()
    out.update_func(mod.get_global_var("main"), _Converter(half).convert(mod["main"]))
    # Because the builder binds the result a second time.
    return apply_rules(run_upstream(out, relax.transform.CanonicalizeBindings()), HALF_PRECISION_RULES)


class _Converter:
    """Rebuilds a function with each value in the dtypes that its consumers need."""

    def __init__(self, half: Half) -> None:
        self._type = half
        self._builder = relax.BlockBuilder()
        # For each original variable, its values by dtype; the first entry is the dtype in which it was computed.
        self._values: dict[Var, dict[str, Expr]] = {}
        # Variables computed in 16 bits: results of convolutions and matrix products, and values that follow them.
        self._half: set[Var] = set()
        # Variables that do not depend on an input: weights that calls compute from constants.
        self._weights: set[Var] = set()
        self._sources: Names = ()

    def convert(self, func: relax.Function) -> relax.Function:
        """Return the converted function, whose inputs and outputs keep their dtypes."""
        if not func.body.blocks:  # the function only returns a parameter or constant
            return func
        (block,) = func.body.blocks
        with self._builder.function("main", list(func.params)):
            with self._builder.dataflow():
                for binding in block.bindings:
                    self._sources = sources_of(binding.value) or self._sources
                    self._bind(binding.var, binding.value)
                result = self._builder.emit_output(self._read(func.body.body, FULL))
            self._builder.emit_func_output(result)
        return self._builder.finalize()["main"].with_attrs(func.attrs)

    def _bind(self, var: Var, value: Expr) -> None:
        operands = free_vars(value)
        halves = any(operand in self._half for operand in operands)
        if all(operand in self._weights for operand in operands):
            self._weights.add(var)
        if _is_product(value, self._type) and is_full(value) and self._is_weight(value.args[1]):
            self._half.add(var)
            halved = [self._read(a, self._type) for a in value.args]
            self._emit(var, FULL, with_attrs(value, halved, out_dtype=FULL))
        elif self._type == "float16" and halves and _follows(value):
            self._half.add(var)
            self._emit(var, self._type, self._on(value, self._type))
        else:
            self._emit(var, FULL, self._on(value, FULL))

    def _is_weight(self, expr: Expr) -> bool:
        """Whether a value depends on no input. Products of two computed tensors (attention) stay in float32."""
        return all(operand in self._weights for operand in free_vars(expr))

    def _on(self, value: Expr, dtype: str) -> Expr:
        """Return `value` with its operands in the given dtype."""
        match value:
            case Call():
                return Call(value.op, [self._read(a, dtype) for a in value.args], value.attrs, value.ty_args)
            case TupleGetItem():
                return TupleGetItem(self._read(value.tuple_value, dtype), value.index)
            case _:
                return self._read(value, dtype)

    def _emit(self, var: Var, dtype: str, value: Expr) -> None:
        if isinstance(value, Call):
            value = with_source(value, self._sources)
        self._values[var] = {dtype: self._builder.emit(value, var.name)}

    def _read(self, expr: Expr, dtype: str) -> Expr:
        """Return an operand in the given dtype; operands that are no float32 tensors are returned unchanged."""
        match expr:
            case Tuple():
                return Tuple([self._read(field, dtype) for field in expr.fields])
            case GenericConst() if is_full(expr) and dtype != FULL:
                return relax.const(_halved(expr.value.numpy(), _LARGEST[dtype]), dtype)
            case Var():
                values = self._values.setdefault(expr, {FULL: expr})
                if dtype not in values:
                    values[dtype] = self._cast(next(iter(values.values())), dtype)
                return values[dtype]
            case _:
                return expr

    def _cast(self, value: Expr, dtype: str) -> Expr:
        if isinstance(value.ty, relax.TupleType):
            items = [self._builder.emit(TupleGetItem(value, i)) for i in range(len(value.ty.fields))]
            return Tuple([self._cast(item, dtype) for item in items])
        if not isinstance(value.ty, relax.TensorType) or str(value.ty.dtype) not in (FULL, self._type):
            return value
        return self._builder.emit(with_source(relax.op.astype(value, dtype), self._sources), value.name)


def _is_product(value: Expr, half: Half) -> bool:
    """Whether a kernel can compute a call in 16 bits; generic loops would take eight times the cycles of float32."""
    if half != "float16" or name_of(value) != "relax.nn.conv2d_transpose":
        return name_of(value) in _PRODUCTS
    attrs, weights = value.attrs, value.args[1].ty.shape
    kernel = [int(weights[str(attrs.kernel_layout).index(axis)]) for axis in "HW"]
    strides = [int(stride) for stride in attrs.strides]
    covers = all(size >= stride for size, stride in zip(kernel, strides, strict=True))
    undilated = all(int(dilation) == 1 for dilation in attrs.dilation)
    return int(attrs.groups) == 1 and covers and undilated and math.prod(strides) <= _MOST_PHASES


def is_full(expr: Expr) -> bool:
    """Whether an expression is a float32 tensor."""
    return isinstance(expr.ty, relax.TensorType) and str(expr.ty.dtype) == FULL


def _follows(value: Expr) -> bool:
    if name_of(value) == "relax.multiply" and value.args[0].same_as(value.args[1]):
        return False
    return name_of(value) in FOLLOWING or isinstance(value, TupleGetItem)


def _halved(value: npt.NDArray[Any], largest: float) -> npt.NDArray[Any]:
    """Return a constant with finite values clamped to the narrower range: a mask of -3e38 must not become infinite."""
    return np.where(np.isfinite(value), np.clip(value, -largest, largest), value)
