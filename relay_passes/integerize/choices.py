# SPDX-License-Identifier: Apache-2.0
"""Integer forms of comparisons, elementwise choices between two tensors, argmax and argmin of quantised tensors.

    greater(dequantize(x), dequantize(y))     →    greater(x, y)             if both have the same quantisation
    greater(dequantize(x), c)                 →    greater_equal(x, t)       t: the minimum x whose real value exceeds c
    quantize(where(m, a, b))                  →    where(m, quantize(a), quantize(b))
    quantize(scatter_nd(a, i, b))             →    scatter_nd(quantize(a), i, quantize(b))
    argmax(dequantize(x))                     →    argmax(x)

Dequantisation is monotonic, so that comparing integers with the same quantisation compares real numbers.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.context import Context, operator
from relay_passes.integerize.numerics import Quantization
from relay_passes.integerize.values import Quantized
from relay_passes.ir.sources import sources_of
from schedules.diagnostic import Diagnostic

_Floats = npt.NDArray[np.float32]
_COMPARISONS: Mapping[str, Callable[[_Floats, np.float32], npt.NDArray[np.bool_]]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
_MIRRORED = {
    "greater": "less",
    "greater_equal": "less_equal",
    "less": "greater",
    "less_equal": "greater_equal",
}
# For each operator, the indices of the two arguments from which it selects elements.
_CHOSEN: Mapping[str, tuple[int, int]] = {"where": (1, 2), "scatter_elements": (0, 2), "scatter_nd": (0, 2)}
# Maximum number of bits of a quantised operand: all its values are dequantised to find a threshold.
_MAX_BITS = 16


def is_comparison(call: Call) -> bool:
    """Whether a call compares two tensors."""
    return operator(call) in _COMPARISONS


def compared(context: Context, call: Call) -> Expr | Diagnostic | None:
    """Return an integer comparison with the same result, or why there is none; None if no operand is quantised."""
    a, b = (context.known(arg) for arg in call.args)
    if a is not None and b is not None and a.constant is None and b.constant is None:
        if a.per_tensor is None or a.per_tensor != b.per_tensor:
            return Diagnostic.of(
                "its operands have different scales or zero points", _described(a), _described(b)
            )
        return Call(call.op, [a.value, b.value], call.attrs, call.ty_args)
    for name, x, other in (
        (operator(call), a, call.args[1]),
        (_MIRRORED.get(operator(call), operator(call)), b, call.args[0]),
    ):
        constant = context.constant(other)
        if x is not None and x.constant is None and constant is not None:
            return _with_constant(name, x, constant)
    return None


def _with_constant(name: str, x: Quantized, constant: npt.NDArray[np.float64]) -> Expr | Diagnostic:
    quantization = x.per_tensor
    if quantization is None:
        return Diagnostic.of("its input is quantised per channel")
    if constant.size != 1:
        return Diagnostic.of("a constant in it has several elements", 1, constant.size)
    info = np.iinfo(quantization.dtype)
    if info.bits > _MAX_BITS:
        return Diagnostic.of("its input has too many bits", f"at most {_MAX_BITS}", info.bits)
    values = np.arange(int(info.min), int(info.max) + 1)
    real = (values - quantization.zero_point).astype(np.float32) * np.float32(quantization.scale)
    holds = _COMPARISONS[name](real, np.float32(constant.item()))
    where = values[~holds if name == "not_equal" else holds]
    if where.size in (0, values.size):
        return Diagnostic.of("its result is the same for every input")
    limit = where[-1] if name.startswith("less") else where[0]
    exact = {"greater": R.greater_equal, "less": R.less_equal}
    compare = exact.get(name) or getattr(R, name)
    return compare(x.value, relax.const(np.array(limit, quantization.dtype)))


def is_choice(call: Call) -> bool:
    """Whether each element of a call's result is selected from one of two tensors, such as by `where`."""
    return operator(call) in _CHOSEN and getattr(call.attrs, "reduction", "update") == "update"


def branches(call: Call) -> list[Expr]:
    """Return the two tensors from which a call selects."""
    return [call.args[at] for at in _CHOSEN[operator(call)]]


def between(call: Call, chosen: Sequence[Expr]) -> Call:
    """Return a copy of the call that selects from two other tensors."""
    given = dict(zip(_CHOSEN[operator(call)], chosen, strict=True))
    return Call(call.op, [given.get(at, arg) for at, arg in enumerate(call.args)], call.attrs, call.ty_args)


def alike(context: Context, call: Call) -> Quantized | None:
    """Return the quantised result of selecting from two tensors with equal scale and zero point; None for others."""
    a, b = (context.known(branch) for branch in branches(call))
    if a is None or b is None or a.per_tensor is None or a.per_tensor != b.per_tensor:
        return None
    value = context.emit(between(call, [a.value, b.value]), a.names, b.names, sources_of(call))
    return Quantized(value, a.scale, a.zero_point, ())


def index(context: Context, call: Call, x: Quantized) -> Expr:
    """Return the argmax or argmin of integers, cast to the numerics' dtype of indices, then to the call's own."""
    dtype, wanted = context.numerics.index_dtype, str(call.ty.dtype)
    place: Expr = Call(call.op, [x.value], call.attrs, call.ty_args)
    if dtype == wanted:
        return place
    found = context.emit(place, x.names, sources_of(call))
    return R.astype(context.emit(R.astype(found, dtype), sources_of(call)), wanted)


def _described(x: Quantized) -> str:
    quantization: Quantization | None = x.per_tensor
    if quantization is None:
        return "per channel"
    return f"{quantization.dtype}, scale {quantization.scale:.6g}, zero point {quantization.zero_point}"
