# SPDX-License-Identifier: Apache-2.0
"""Complex values as pairs of real values, and Fourier transforms."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops import maths
from arm_ext.frontends.ops.fourier import Fourier, fourier
from arm_ext.frontends.stablehlo.attributes import ints, tensor_of, word
from arm_ext.frontends.stablehlo.translator import Complex, Convert, Translator

R = relax.op
_LONGEST = 4096
"""Most elements of a transform, whose matrices have as many rows and columns."""

BY_PARTS = (
    "stablehlo.add",
    "stablehlo.broadcast_in_dim",
    "stablehlo.concatenate",
    "stablehlo.dynamic_slice",
    "stablehlo.gather",
    "stablehlo.negate",
    "stablehlo.optimization_barrier",
    "stablehlo.pad",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.select",
    "stablehlo.slice",
    "stablehlo.subtract",
    "stablehlo.transpose",
)
"""Operators that act on the real and imaginary parts of a complex value separately."""

Both = Value | Complex


def by_parts(convert: Convert) -> Convert:
    """Return a converter that converts an operator's real and imaginary part separately."""

    def converted(t: Translator, op: Any, operands: list[Any]) -> list[Any]:
        if not any(isinstance(x, Complex) for x in operands):
            return convert(t, op, operands)
        real = convert(t, op, [x.real if isinstance(x, Complex) else x for x in operands])
        imag = convert(t, op, [x.imag if isinstance(x, Complex) else x for x in operands])
        return [Complex(a, b) for a, b in zip(real, imag, strict=True)]

    return converted


def either(on_reals: Convert, on_complexes: Callable[..., Any]) -> Convert:
    """Return a converter that uses `on_complexes` if an operand is complex, else `on_reals`."""

    def converted(t: Translator, op: Any, operands: list[Any]) -> list[Any]:
        if not any(isinstance(x, Complex) for x in operands):
            return on_reals(t, op, operands)
        return [on_complexes(t, *operands)]

    return converted


def multiply(t: Translator, x: Complex, y: Complex) -> Complex:
    """Convert a complex multiplication."""
    return Complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def divide(t: Translator, x: Complex, y: Complex) -> Complex:
    """Convert a complex division x / y: x times y's conjugate, divided by |y|²."""
    square = y.real * y.real + y.imag * y.imag
    over = multiply(t, x, Complex(y.real, -y.imag))
    return Complex(over.real / square, over.imag / square)


def size(t: Translator, x: Complex) -> Value:
    """Convert the absolute value of a complex number."""
    return maths.sqrt(x.real * x.real + x.imag * x.imag)


def exponential(t: Translator, x: Complex) -> Complex:
    """Convert the exponential of a complex number."""
    grown = maths.exp(x.real)
    return Complex(grown * maths.cos(x.imag), grown * maths.sin(x.imag))


def _complex(t: Translator, op: Any, operands: list[Value]) -> list[Any]:
    return [Complex(*operands)]


def _real(t: Translator, op: Any, operands: list[Any]) -> list[Any]:
    (x,) = operands
    return [x.real if isinstance(x, Complex) else x]


def _imag(t: Translator, op: Any, operands: list[Any]) -> list[Any]:
    (x,) = operands
    return [x.imag if isinstance(x, Complex) else Value(t, t.number(0, x), x.shape)]


def convert(on_reals: Convert) -> Convert:
    """Return a converter for `convert` to or from complex types; conversions between real types use `on_reals`."""

    def converted(t: Translator, op: Any, operands: list[Any]) -> list[Any]:
        tensor, (x,) = tensor_of(op.results[0].type), operands
        assert tensor is not None  # operators with other types have been refused earlier
        if tensor.is_complex:
            return [x if isinstance(x, Complex) else Complex(x, Value(t, t.number(0, x), x.shape))]
        return on_reals(t, op, [x.real if isinstance(x, Complex) else x])

    return converted


def _fft(t: Translator, op: Any, operands: list[Any]) -> list[Any]:
    (x,), lengths, kind = operands, ints(op, "fft_length"), word(op, "fft_type")
    if max(lengths) > _LONGEST:
        raise ModelError(
            f"it transforms {max(lengths)} elements along an axis; at most {_LONGEST} are supported"
        )
    axes = list(range(len(x.shape) - len(lengths), len(x.shape)))
    inverse, onesided = kind in ("IFFT", "IRFFT"), kind in ("RFFT", "IRFFT")
    y: Both = x
    if not inverse:
        y = _transformed(t, y, axes[-1], lengths[-1], inverse, onesided)
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        y = _transformed(t, y, axis, length, inverse, onesided=False)
    if inverse:
        y = _transformed(t, y, axes[-1], lengths[-1], inverse, onesided)
    return [y]


def _transformed(t: Translator, x: Both, axis: int, length: int, inverse: bool, onesided: bool) -> Both:
    """Emit the transform along an axis; an inverse one-sided transform maps half a spectrum to real values."""
    parts = [x.real, x.imag] if isinstance(x, Complex) else [x]
    order = [a for a in range(len(x.shape)) if a != axis] + [axis]
    back = [order.index(a) for a in range(len(order))]
    lead = [x.shape[a] for a in order[:-1]]
    data = [t.reshaped(t.permuted(part.full, order), [*lead, 1, x.shape[axis]]) for part in parts]
    bins = length // 2 + 1 if onesided and not inverse else length
    transform = Fourier(length, bins, inverse, half=inverse and onesided)
    whole = t.emit(R.concat(data, axis=len(lead))) if len(data) > 1 else data[0]
    result = fourier(t.hold(whole), transform).full

    def part(number: int) -> Value:
        value = result
        if transform.results > 1:
            value = t.emit(R.strided_slice(result, [len(lead)], [number], [number + 1]))
        return t.hold(t.permuted(t.reshaped(value, [*lead, bins]), back))

    return part(0) if transform.half else Complex(part(0), part(1))


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {
    "stablehlo.complex": _complex,
    "stablehlo.fft": _fft,
    "stablehlo.imag": _imag,
    "stablehlo.real": _real,
}


def with_complexes(converters: dict[str, Convert]) -> dict[str, Convert]:
    """Return the converters, extended to complex values for operators that take them."""
    special: Sequence[tuple[str, Callable[..., Any]]] = (
        ("stablehlo.abs", size),
        ("stablehlo.divide", divide),
        ("stablehlo.exponential", exponential),
        ("stablehlo.multiply", multiply),
    )
    return {
        **converters,
        **CONVERTERS,
        **{name: by_parts(converters[name]) for name in BY_PARTS},
        **{name: either(converters[name], function) for name, function in special},
        "stablehlo.convert": convert(converters["stablehlo.convert"]),
    }


TAKES_COMPLEX = (
    *BY_PARTS,
    *CONVERTERS,
    "func.call",
    "stablehlo.abs",
    "stablehlo.convert",
    "stablehlo.divide",
    "stablehlo.exponential",
    "stablehlo.multiply",
)
"""Operators that may have operands or results of a complex type."""
