# SPDX-License-Identifier: Apache-2.0
"""Elementwise torch operators that upstream's importer lacks."""

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tvm import relax, te, tirx
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.common import maths

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]

_SOFTPLUS_IS_X = 17  # exp(-17) is less than half of the last bit of 17 in binary32


def exp2(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert exp2."""
    return importer.block_builder.emit(R.power(_number(2.0, a["self"]), a["self"]))


def erfc(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert erfc: 1 - erf(x)."""
    emit = importer.block_builder.emit
    return emit(R.subtract(_number(1.0, a["self"]), emit(R.erf(a["self"]))))


def signbit(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert signbit, which is true of -0 and of a NaN with that bit."""
    builder, x = importer.block_builder, a["self"]
    dtype = str(x.ty.dtype)
    if dtype == "bool":
        return builder.emit(R.zeros_like(x))
    if "float" not in dtype:
        return builder.emit(R.less(x, relax.const(0, dtype)))
    wide = "float64" if dtype == "float64" else "float32"
    bits = wide.replace("float", "int")

    def signs(data: te.Tensor) -> te.Tensor:
        return te.compute(
            data.shape,
            lambda *at: tirx.reinterpret(bits, data(*at).astype(wide)) < tirx.const(0, bits),
            "signs",
        )

    return builder.emit(builder.call_te(signs, x, primfunc_name_hint="signbit"))


def hypot(importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert hypot: m · sqrt(1 + (n / m)²) of the greater magnitude m and the lesser n, as squares overflow.

    Of an infinity and a NaN it is infinite.
    """
    emit = importer.block_builder.emit
    dtype = importer._convert_data_type(node.meta["val"].dtype)
    x, y = (emit(R.abs(emit(R.astype(a[name], dtype)))) for name in ("self", "other"))
    greater = emit(R.maximum(x, y))
    zero, infinity = relax.const(0, dtype), relax.const(math.inf, dtype)
    ratio = emit(R.divide(emit(R.minimum(x, y)), greater))
    ratio = emit(R.where(emit(R.equal(greater, zero)), zero, ratio))
    root = emit(R.sqrt(emit(R.add(emit(R.multiply(ratio, ratio)), relax.const(1, dtype)))))
    is_infinite = emit(R.logical_or(emit(R.equal(x, infinity)), emit(R.equal(y, infinity))))
    return emit(R.where(is_infinite, infinity, emit(R.multiply(greater, root))))


def composed(function: Callable[..., Expr]) -> Callable[..., relax.Expr]:
    """Return a converter by a function of `common.maths`, in float32 for narrower floats."""

    def convert(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
        t = maths.BlockEmitter(importer.block_builder)
        operands = [a[name] for name in ("self", "other") if name in a]
        return t.emit(maths.in_float32(function)(t, *operands))

    return convert


def softplus(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert softplus, which is x above a threshold."""
    emit, x, scale = importer.block_builder.emit, a["self"], _number(float(a["beta"]), a["self"])
    inner = x if a["beta"] == 1 else emit(R.multiply(x, scale))
    result = emit(R.nn.softplus(inner))
    result = result if a["beta"] == 1 else emit(R.divide(result, scale))
    # From there on, binary32 rounds it to x anyway.
    if a["threshold"] >= _SOFTPLUS_IS_X:
        return result
    return emit(R.where(emit(R.greater(inner, _number(float(a["threshold"]), x))), x, result))


def elu(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert elu, and what torch makes of selu and celu, of whose three factors upstream reads the first.

    scale · (max(x, 0) - alpha · max(1 - exp(input_scale · x), 0))
    """
    emit, x = importer.block_builder.emit, a["self"]
    inner = x if a["input_scale"] == 1 else emit(R.multiply(x, _number(a["input_scale"], x)))
    below = emit(R.nn.relu(emit(R.subtract(_number(1.0, x), emit(R.exp(inner))))))
    slope = _number(-a["alpha"] * a["scale"], x)
    above = emit(R.nn.relu(x))
    above = above if a["scale"] == 1 else emit(R.multiply(above, _number(a["scale"], x)))
    return emit(R.add(emit(R.multiply(slope, below)), above))


def shifted_left(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert x << y."""
    return importer.block_builder.emit(R.left_shift(a["self"], _number(a["other"], a["self"])))


def shifted_right(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert x >> y."""
    return importer.block_builder.emit(R.right_shift(a["self"], _number(a["other"], a["self"])))


def _number(value: Any, like: relax.Expr) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype)) if isinstance(value, int | float) else value


def power(importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert a power: integers by `common.maths`, as TVM has no code for theirs; upstream converts others."""
    dtype = importer._convert_data_type(node.meta["val"].dtype)
    if "int" not in dtype:
        scalar = node.target is torch.ops.aten.pow.Tensor_Scalar
        return importer._pow(node) if scalar else importer._binary_op(R.power, operator.pow)(node)
    t = maths.BlockEmitter(importer.block_builder)
    base, exponent = (
        relax.const(int(x), dtype) if isinstance(x, int | float) else t.emit(R.astype(x, dtype))
        for x in (a["self"], a["exponent"])
    )
    return t.emit(maths.power(t, base, exponent))


FUNCTIONS = {f"{name}.default": composed(function) for name, function in maths.FUNCTIONS.items()}
"""Operator → its converter, by a function of `common.maths`."""
