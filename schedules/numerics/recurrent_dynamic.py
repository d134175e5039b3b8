# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN over a sequence as in `recurrent`, whose state is quantised anew before each product.

    a[b, n] = float(sum over k of (q[b, k] - z[b]) * R[k, n]) * (s[b] * scale[n])        q, s, z = rounding(h)

A rounding is that of a runtime:

    "uint8"        all rows of a batch together, as ONNX's DynamicQuantizeLinear: between the least and the greatest h,
                   0 included, are 255 steps s (1 if there is no span); z = round(-least / s), q = round(h / s) + z,
                   half to even, from 0 to 255
    "symmetric"    row by row, as TFLite does it: s = largest |h| / 127 (1 / 127 if it is 0), z = 0, and
                   q = round(h * (127 / largest |h|)), half away from 0

R are constants of int8, or of int16 where a zero point is taken off uint8.
Source: onnxruntime's DynamicQuantizeLSTM; TensorFlow Lite, PortableSymmetricQuantizeFloats.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.recurrent import Array, Cell, Emitter, routine_of, sequence
from schedules.numerics.routine import Routine
from schedules.tir.emit import i64

Rounding = Literal["uint8", "symmetric"]

ROUNDINGS: tuple[Rounding, ...] = ("uint8", "symmetric")

STEPS = 255.0
"""From the least uint8 to the greatest."""

MOST = 127.0
"""The greatest symmetric int8."""


def quantized(h: Array, rounding: Rounding) -> tuple[Array, Array, Array]:
    """Return integers, steps and zero points of a state, [batch, hidden], float32; the latter two [batch, 1]."""
    h, rows = h.astype(np.float32), (len(h), 1)
    if rounding == "symmetric":
        most = np.abs(h).max(1, keepdims=True)
        most = np.where(most == 0, np.float32(1), most)
        scaled = h * (np.float32(MOST) / most)
        q = np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))
        return q.astype(np.int32), most / np.float32(MOST), np.zeros(rows, np.int32)
    low, high = np.minimum(h.min(), np.float32(0)), np.maximum(h.max(), np.float32(0))
    step = np.float32(1) if low == high else (high - low) / np.float32(STEPS)
    zero = np.rint(-low / step)
    q = np.clip(np.rint(h / step) + zero, 0, STEPS).astype(np.int32)
    return q, np.full(rows, step, np.float32), np.full(rows, zero, np.int32)


def sequence_dynamic(
    cell: Cell,
    x: Array,
    r: Array,
    scale: Array,
    states: tuple[Array, ...],
    rounding: Rounding,
    bias: Array | None = None,
    lengths: Array | None = None,
) -> Array:
    """Compute the definition in float32.

    Args:
        cell: What each step computes.
        x: Products with the data, [steps, batch, gates * hidden].
        r: Integers, [hidden, gates * hidden].
        scale: Of its columns, [gates * hidden].
        states: The first h, and of an LSTM c, [batch, hidden].
        rounding: Of h.
        bias: See `sequence`.
        lengths: See `sequence`.
    """
    by_gate, scales = (np.split(each, cell.gates, -1) for each in (r.astype(np.int64), scale))

    def product(h: Array, gate: int) -> Array:
        q, step, zero = quantized(h, rounding)
        total: Array = ((q - zero) @ by_gate[gate]).astype(np.float32)
        return np.asarray(total * (step * scales[gate]))

    return sequence(cell, x, r, states, bias, lengths, product)


def recurrent_dynamic_routine(
    cell: Cell, sizes: tuple[int, int, int], dtype: str, rounding: Rounding, *, lengths: bool
) -> Routine:
    """Return the routine of `sequence_dynamic`, in loops as they are written above.

    Its arguments are x, r, scale, the states, the bias if it is linear before the reset, and lengths (int32) if there
    are any.

    Args:
        cell: What each step computes.
        sizes: Steps, batch, hidden.
        dtype: Of r.
        rounding: Of h.
        lengths: Whether sequences have lengths.
    """
    steps, batch, hidden = sizes
    rows, width = (batch, hidden), cell.gates * hidden
    shapes = [((steps, batch, width), "float32"), ((hidden, width), dtype), ((width,), "float32")]
    shapes += [(rows, "float32")] * cell.states
    shapes += [((hidden,), "float32")] * cell.linear_before_reset + [((batch,), "int32")] * lengths
    shapes.append(((steps + cell.states, *rows), "float32"))
    return routine_of(
        shapes,
        lambda buffers: _Emitter(cell, sizes, buffers, rounding).emit(lengths=lengths),
        {"numerics": f"dynamic.{cell.kind}", "rounding": rounding, **cell.attributes},
    )


def _f32(value: float) -> tirx.FloatImm:
    return tirx.FloatImm("float32", value)


class _Emitter(Emitter):
    """Emits `sequence_dynamic` step by step."""

    def __init__(
        self, cell: Cell, sizes: tuple[int, int, int], buffers: list[tirx.Buffer], rounding: Rounding
    ) -> None:
        x, r, self.scale, *others = buffers
        super().__init__(cell, sizes, [x, r, *others])
        self.rounding = rounding
        self.q = T.alloc_buffer((self.batch, self.hidden), "int32")
        self.acc = T.alloc_buffer((1,), "int32")
        # The least and the greatest of all rows, or the step and its reciprocal of each.
        self.ends = T.alloc_buffer((self.batch, 2), "float32")

    def product(self, gate: int, gates: int, source: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
        """Emit the sums of some gates."""
        self._quantize(source)
        first = i64(gate * self.hidden)
        with T.serial(i64(0), i64(self.batch)) as b, T.serial(i64(0), i64(gates * self.hidden)) as column:
            T.buffer_store(self.acc, tirx.IntImm("int32", 0), [i64(0)])
            with T.serial(i64(0), i64(self.hidden)) as k:
                weight = tirx.Cast("int32", self.r[k, first + column])
                T.buffer_store(self.acc, self.acc[i64(0)] + self.q[b, k] * weight, [i64(0)])
            scale = self.ends[b, i64(0)] * self.scale[first + column]
            T.buffer_store(self.sums, tirx.Cast("float32", self.acc[i64(0)]) * scale, [b, first + column])

    def _quantize(self, source: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
        """Emit integers less their zero points, and steps."""
        (self._symmetric if self.rounding == "symmetric" else self._uint8)(source)

    def _symmetric(self, source: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
        with T.serial(i64(0), i64(self.batch)) as b:
            own = partial(T.buffer_store, self.ends)
            own(_f32(0), [b, i64(0)])
            with T.serial(i64(0), i64(self.hidden)) as k:
                own(tirx.max(self.ends[b, i64(0)], tirx.abs(source(b, k))), [b, i64(0)])
            most = T.Bind(tirx.Select(self.ends[b, i64(0)] == 0, _f32(1), self.ends[b, i64(0)]))
            own(_f32(MOST) / most, [b, i64(1)])
            own(most / _f32(MOST), [b, i64(0)])
            with T.serial(i64(0), i64(self.hidden)) as k:
                scaled = T.Bind(source(b, k) * self.ends[b, i64(1)])
                whole = T.Bind(tirx.Cast("int32", tirx.floor(tirx.abs(scaled) + _f32(0.5))))
                T.buffer_store(self.q, tirx.Select(scaled < 0, -whole, whole), [b, k])

    def _uint8(self, source: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
        low, high = self._start_ends()
        with self.elements() as (b, k):
            T.buffer_store(self.ends, tirx.min(low(), source(b, k)), [i64(0), i64(0)])
            T.buffer_store(self.ends, tirx.max(high(), source(b, k)), [i64(0), i64(1)])
        span = T.Bind(high() - low())
        step = T.Bind(tirx.Select(span == 0, _f32(1), span / _f32(STEPS)))
        zero = T.Bind(tirx.Cast("int32", tirx.nearbyint(-low() / step)))
        with self.elements() as (b, k):
            whole = tirx.Cast("int32", tirx.nearbyint(source(b, k) / step)) + zero
            limited = tirx.max(tirx.min(whole, tirx.IntImm("int32", int(STEPS))), tirx.IntImm("int32", 0))
            T.buffer_store(self.q, limited - zero, [b, k])
        with T.serial(i64(0), i64(self.batch)) as b:
            T.buffer_store(self.ends, step, [b, i64(0)])

    def _start_ends(self) -> tuple[Callable[[], ir.Expr], Callable[[], ir.Expr]]:
        """Emit the start of the least and the greatest, and return what loads them."""
        for k in range(2):
            T.buffer_store(self.ends, _f32(0), [i64(0), i64(k)])
        return (lambda: self.ends[i64(0), i64(0)]), (lambda: self.ends[i64(0), i64(1)])
