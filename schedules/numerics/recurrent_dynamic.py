# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN over a sequence as in `recurrent`, but the state is quantised before each product with it.

    a[b, n] = float(sum over k of (q[b, k] - z[b]) * R[k, n]) * (s[b] * scale[n])        q, s, z = rounding(h)

There are two ways to quantise the state ("roundings"), each defined by a runtime:

    "uint8"        per tensor, as ONNX's DynamicQuantizeLinear: s = (max - min) / 255, or 1 if max = min, where min and
                   max are those of h and 0; z = round(-min / s), q = round(h / s) + z, half to even, from 0 to 255
    "symmetric"    per row, as in TFLite: s = max |h| / 127, or 1 / 127 if that is 0; z = 0,
                   q = round(h * (127 / max |h|)), half away from 0

R is a constant, int8 or, for uint8 weights minus a zero point, int16. Source: onnxruntime's DynamicQuantizeLSTM;
TensorFlow Lite, PortableSymmetricQuantizeFloats.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.recurrent import Array, Cell, SequenceEmitter, sequence, state_arguments
from schedules.numerics.routine import Routine, routine_of_loops
from schedules.tir.emit import i64

Rounding = Literal["uint8", "symmetric"]

ROUNDINGS: tuple[Rounding, ...] = ("uint8", "symmetric")

STEPS = 255.0
"""Number of steps between the least and the greatest uint8."""

MOST = 127.0
"""Greatest value of symmetric int8."""


def quantized(h: Array, rounding: Rounding) -> tuple[Array, Array, Array]:
    """Quantise a state [batch, hidden]; return int32 integers, scales (float32) and zero points, both [batch, 1]."""
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
    """Compute the recurrent layer with a quantised state by the module's definition, in float32.

    Args:
        cell: Cell that each step computes.
        x: Products of data and weights, [steps, batch, gates * hidden].
        r: Integer weights, [hidden, gates * hidden].
        scale: Scale of each column of r, [gates * hidden].
        states: Initial h and, for an LSTM, c; each [batch, hidden].
        rounding: How h is quantised.
        bias: Bias of the last gate's recurrent product, [hidden], if it is linear before the reset.
        lengths: Lengths of the sequences, [batch]; None if all have all steps.
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
    """Return a routine that computes `sequence_dynamic`, as loops in the order of the definition.

    Its arguments are x, r, scale, the states, the bias if `linear_before_reset`, and the int32 lengths, if any.

    Args:
        cell: Cell that each step computes.
        sizes: Numbers of steps, of sequences and of hidden units.
        dtype: Dtype of r.
        rounding: How h is quantised.
        lengths: Whether sequences have lengths.
    """
    steps, batch, hidden = sizes
    width = cell.gates * hidden
    weights = [((steps, batch, width), "float32"), ((hidden, width), dtype), ((width,), "float32")]
    return routine_of_loops(
        f"dynamic.{cell.kind}",
        [*weights, *state_arguments(cell, sizes, lengths=lengths)],
        lambda buffers: _DynamicSequenceEmitter(cell, sizes, buffers, rounding).emit(lengths=lengths),
        rounding=rounding,
        **cell.attributes,
    )


def _f32(value: float) -> tirx.FloatImm:
    return tirx.FloatImm("float32", value)


class _DynamicSequenceEmitter(SequenceEmitter):
    """Emits the loops of `sequence_dynamic` step by step."""

    def __init__(
        self, cell: Cell, sizes: tuple[int, int, int], buffers: list[tirx.Buffer], rounding: Rounding
    ) -> None:
        x, r, self.scale, *others = buffers
        super().__init__(cell, sizes, [x, r, *others])
        self.rounding = rounding
        self.q = T.alloc_buffer((self.batch, self.hidden), "int32")
        self.acc = T.alloc_buffer((1,), "int32")
        # First the minimum and maximum of all rows, stored in row 0, then each row's scale; for "symmetric" its
        # reciprocal, too.
        self.ends = T.alloc_buffer((self.batch, 2), "float32")

    def product(self, gate: int, gates: int, source: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
        """Emit the quantisation of `source`, and its product with the weights of `gates` gates; the first is `gate`."""
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
        """Emit the stores of the quantised state minus zero points, and of the scales."""
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
        for end in range(2):
            T.buffer_store(self.ends, _f32(0), [i64(0), i64(end)])
        low, high = (self.ends[i64(0), i64(end)] for end in range(2))
        with self.elements() as (b, k):
            T.buffer_store(self.ends, tirx.min(low, source(b, k)), [i64(0), i64(0)])
            T.buffer_store(self.ends, tirx.max(high, source(b, k)), [i64(0), i64(1)])
        span = T.Bind(high - low)
        step = T.Bind(tirx.Select(span == 0, _f32(1), span / _f32(STEPS)))
        zero = T.Bind(tirx.Cast("int32", tirx.nearbyint(-low / step)))
        with self.elements() as (b, k):
            whole = tirx.Cast("int32", tirx.nearbyint(source(b, k) / step)) + zero
            limited = tirx.max(tirx.min(whole, tirx.IntImm("int32", int(STEPS))), tirx.IntImm("int32", 0))
            T.buffer_store(self.q, limited - zero, [b, k])
        with T.serial(i64(0), i64(self.batch)) as b:
            T.buffer_store(self.ends, step, [b, i64(0)])
