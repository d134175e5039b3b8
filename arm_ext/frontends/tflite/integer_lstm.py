# SPDX-License-Identifier: Apache-2.0
"""TFLite's LSTM with 8-bit data and a 16-bit cell, in LiteRT's integer arithmetic.

    gate    logistic or tanh of  sat16(sat16(scaled(x W + b)) + scaled(h R))    3 integer bits, by fixed-point tables
    cell    sat16((forget * cell) >> 15 + (input * new) >> s)                   s by the cell's power of two
    h       sat8(scaled(output * tanh(cell)) + z)

Each product is scaled to 16 bits by itself, with a multiplier of 31 bits; zero points are part of the biases.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite import fixed_point
from arm_ext.frontends.tflite.fixed_point import scale_of
from arm_ext.frontends.tflite.integers import of_each, product, saturated, scaled, shifted, whole
from arm_ext.frontends.tflite.sequences import (
    Operands,
    State,
    operands_of,
    quantization_of,
    run_steps,
    steps_first,
)

_R = relax.op

_WEIGHTS, _RECURRENT, _PEEPHOLES, _BIASES = 1, 5, 9, 12
_PROJECTION, _PROJECTION_BIAS, _HIDDEN, _CELL, _NORMS = 16, 17, 18, 19, 20
_INPUT, _FORGET, _NEW, _OUTPUT = range(4)
_PEEPHOLE_OF = {_INPUT: 0, _FORGET: 1, _OUTPUT: 2}

_GATE_SCALE = 2.0**-12
"""Scale of the argument of a gate's activation, which has 3 integer bits."""
_FRACTION = 15
"""Fractional bits of the result."""
_HIDDEN_PLACE = 4
"""Index of the intermediate tensor with the quantisation of the output before the projection."""
_TANH_BITS = range(7)
"""Integer bits of the cell that LiteRT has a tanh for."""


def integer_lstm(c: Any, op: Any, options: Any) -> relax.Expr:
    """Convert all steps of an LSTM; the result is int8.

    Raises:
        ModelError: It has a form that is not computed here.
    """
    lstm = _Lstm.of(c, op, options)
    o, time_major = lstm.o, options.TimeMajor()
    x = steps_first(c, c.bb.normalize(c.value(int(o.numbers[0]))), time_major=time_major)
    total = lstm.product(x, _WEIGHTS, o.quantization(0), biased=True)
    rows = c.bb.emit(saturated(c.bb.emit(total), "int16"))
    return run_steps(o, rows, (_HIDDEN, _CELL), lstm.step, time_major=time_major)


@dataclass(frozen=True)
class _Lstm:
    """An operator, and what its steps compute with.

    Attributes:
        o: Operands of the operator.
        gates: The gates that the operator has; one without an input gate uses 1 minus the forget gate.
        hidden: Scale and zero point of the output before a projection.
        output: Scale and zero point of the output.
        cell_bits: log2 of the cell's scale.
        cell_clip: Largest |cell|; 0 for no limit.
        projection_clip: Largest |output| of the projection; 0 for no limit.
    """

    o: Operands
    gates: tuple[int, ...]
    hidden: tuple[float, int]
    output: tuple[float, int]
    cell_bits: int
    cell_clip: int
    projection_clip: int

    @classmethod
    def of(cls, c: Any, op: Any, options: Any) -> "_Lstm":
        o = operands_of(c, op)
        _check(o, op, options)
        output, cell_scale = o.quantization(_HIDDEN), o.quantization(_CELL)[0]
        return cls(
            o=o,
            gates=tuple(gate for gate in range(4) if o.has(_WEIGHTS + gate)),
            hidden=quantization_of(c.tensor(op.Intermediates(_HIDDEN_PLACE))),
            output=output,
            cell_bits=round(math.log2(cell_scale)),
            cell_clip=_units(options.CellClip(), cell_scale, "int16"),
            projection_clip=_units(options.ProjClip(), output[0], "int8"),
        )

    def product(self, x: relax.Expr, first: int, data: tuple[float, int], *, biased: bool) -> relax.Expr:
        """Return the gates' products with their data, before saturation to int16; inputs from `first` are weights."""
        places = [first + gate for gate in self.gates]
        scales = [scale_of(data[0], self.o.quantization(at)[0], _GATE_SCALE) for at in places]
        weights = [self.o.integers(at) for at in places]
        biases = [self.o.integers(_BIASES + gate) for gate in self.gates] if biased else None
        return _product(x, weights, data[1], scales, biases)

    def step(self, row: relax.Expr, state: State) -> State:
        emit = self.o.c.bb.emit
        hidden, cell = state
        recurrent = emit(self.product(hidden, _RECURRENT, self.output, biased=False))
        total = emit(saturated(emit(_R.add(_R.astype(row, "int32"), recurrent)), "int16"))
        parts = emit(_R.split(total, len(self.gates), -1))
        by_gate = {gate: relax.TupleGetItem(parts, k) for k, gate in enumerate(self.gates)}
        old = emit(_R.astype(cell, "int32"))
        gate_of = partial(self._gate, by_gate)
        forget = gate_of(_FORGET, old)
        taken = gate_of(_INPUT, old) if _INPUT in by_gate else _R.subtract(whole(fixed_point.MOST), forget)
        kept = shifted(emit(_R.multiply(forget, old)), _FRACTION)
        added = shifted(emit(_R.multiply(taken, gate_of(_NEW, old))), 2 * _FRACTION + self.cell_bits)
        # Each is cut to 16 bits, as in LiteRT.
        kept, added = (_R.astype(_R.astype(part, "int16"), "int32") for part in (kept, added))
        cell = emit(_clipped(saturated(emit(_R.add(kept, added)), "int16"), self.cell_clip, "int16"))
        new = emit(_R.astype(cell, "int32"))
        tanh = _R.astype(of_each(fixed_point.fixed_tanh(_FRACTION + self.cell_bits), cell), "int32")
        product = emit(_R.multiply(gate_of(_OUTPUT, new), tanh))
        scale, zero_point = self.hidden
        y = _R.add(scaled(product, scale_of(2.0**-_FRACTION, 2.0**-_FRACTION, scale)), whole(zero_point))
        return self._projected(emit(saturated(emit(y), "int8"))), cell

    def _gate(self, totals: dict[int, relax.Expr], gate: int, cell: relax.Expr) -> relax.Expr:
        emit, total = self.o.c.bb.emit, totals[gate]
        place = _PEEPHOLES + _PEEPHOLE_OF.get(gate, len(self.o.numbers))
        if self.o.has(place):
            weight = whole(self.o.integers(place).astype(np.int32))
            scale = scale_of(2.0**self.cell_bits, self.o.quantization(place)[0], _GATE_SCALE)
            seen = scaled(emit(_R.multiply(weight, cell)), scale)
            total = saturated(emit(_R.add(_R.astype(total, "int32"), seen)), "int16")
        table = fixed_point.fixed_tanh(3) if gate == _NEW else fixed_point.fixed_logistic()
        return emit(_R.astype(of_each(table, emit(total)), "int32"))

    def _projected(self, y: relax.Expr) -> relax.Expr:
        if not self.o.has(_PROJECTION):
            return y
        emit, (scale, zero_point) = self.o.c.bb.emit, self.output
        scales = [scale_of(self.o.quantization(_PROJECTION)[0], self.hidden[0], scale)]
        biases = [self.o.integers(_PROJECTION_BIAS)] if self.o.has(_PROJECTION_BIAS) else None
        product = _product(y, [self.o.integers(_PROJECTION)], self.hidden[1], scales, biases)
        y = emit(saturated(emit(_R.add(product, whole(zero_point))), "int8"))
        return _clipped(y, self.projection_clip, "int8")


def _product(
    x: relax.Expr, weights: list[Any], zero_point: int, scales: list[float], biases: list[Any] | None
) -> relax.Expr:
    """Data by matrices side by side, each with a scale of its own."""
    bias = None if biases is None else np.concatenate(biases)
    total = product(x, zero_point, np.concatenate(weights), bias)
    return scaled(total, np.repeat(scales, [len(weight) for weight in weights]))


def _units(limit: float, scale: float, dtype: str) -> int:
    """A limit in units of a scale."""
    most = int(np.iinfo(dtype).max)
    return int(min(max(limit / scale, -most - 1), most)) if limit > 0 else 0


def _clipped(x: relax.Expr, limit: int, dtype: str) -> relax.Expr:
    if not limit:
        return x
    return _R.minimum(_R.maximum(x, whole(-limit, dtype)), whole(limit, dtype))


def _check(o: Operands, op: Any, options: Any) -> None:
    if o.has(_NORMS + _FORGET):
        raise ModelError("its gates are normalised, which is not supported with data of 8 bits")
    if options.FusedActivationFunction() != tflite.ActivationFunctionType.TANH:
        raise ModelError(
            f"its activation is {options.FusedActivationFunction()}; with data of 8 bits it is tanh, 4"
        )
    if op.IntermediatesLength() <= _HIDDEN_PLACE:
        raise ModelError(
            "it does not say how its output is quantised before a projection (its intermediates)"
        )
    if (
        o.tensor(0).tensor.Type() != tflite.TensorType.INT8
        or o.tensor(_CELL).tensor.Type() != tflite.TensorType.INT16
    ):
        raise ModelError("its data are quantised otherwise than in int8, or its cell than in int16")
    scale, zero_point = o.quantization(_CELL)
    bits = math.log2(scale)
    if (
        zero_point
        or abs(bits - round(bits)) > fixed_point.ALMOST
        or _FRACTION + round(bits) not in _TANH_BITS
    ):
        raise ModelError(
            f"its cell has scale {scale} and zero point {zero_point}; scales from 2^-15 to 2^-9 and zero point 0 are "
            "supported"
        )
