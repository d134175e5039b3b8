# SPDX-License-Identifier: Apache-2.0
"""TFLite's LSTM with 8-bit data and a 16-bit cell, in LiteRT's integer arithmetic.

One product with the data of all steps, then one call that walks the steps: `schedules.numerics.recurrent_integer`
defines it. Zero points are part of the biases.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.ops.recurrent import run_integer_lstm
from arm_ext.frontends.tflite import fixed_point
from arm_ext.frontends.tflite.fixed_point import scale_of
from arm_ext.frontends.tflite.integers import product
from arm_ext.frontends.tflite.sequences import Operands, operands_of, quantization_of, steps_first
from schedules.numerics.recurrent_integer import FORGET, FRACTION, PEEPHOLES, Constants, IntegerLstm, Scale

Array = npt.NDArray[Any]

_R = relax.op

_WEIGHTS, _RECURRENT, _PEEPHOLES, _BIASES = 1, 5, 9, 12
_PROJECTION, _PROJECTION_BIAS, _HIDDEN, _CELL, _NORMS = 16, 17, 18, 19, 20

_GATE_BITS = 3
"""Integer bits of the argument of a gate's activation."""
_GATE_SCALE = 2.0 ** (_GATE_BITS - FRACTION)
_HIDDEN_PLACE = 4
"""Index of the intermediate tensor with the quantisation of the output before the projection."""
_TANH_BITS = range(7)
"""Integer bits of the cell that LiteRT has a tanh for."""


def integer_lstm(c: Any, op: Any, options: Any) -> relax.Expr:
    """Convert all steps of an LSTM; the result is int8.

    Raises:
        ModelError: The LSTM has an unsupported form.
    """
    o = operands_of(c, op)
    _check(o, op, options)
    time_major = options.TimeMajor()
    x = steps_first(c, c.bb.normalize(c.value(int(o.numbers[0]))), time_major=time_major)
    weights, biases, scales = _products(o, _WEIGHTS, o.quantization(0)[0])
    rows = c.bb.emit(product(x, o.quantization(0)[1], weights, biases))
    lstm = _lstm(o, scales, quantization_of(c.tensor(op.Intermediates(_HIDDEN_PLACE))), options)
    states = [c.bb.emit(_R.astype(o.state(_HIDDEN), "int16")), o.state(_CELL)]
    walked = run_integer_lstm(c.bb, lstm, rows, _constants(o, lstm), states)
    o.keep(_HIDDEN, c.bb.emit(_R.astype(walked.states[0], "int8")))
    o.keep(_CELL, walked.states[1])
    return steps_first(c, c.bb.emit(_R.astype(walked.y, "int8")), time_major=time_major)


def _gates(o: Operands) -> list[int]:
    """Return the LSTM's gates; without an input gate, that gate is 1 minus the forget gate."""
    return [gate for gate in range(4) if o.has(_WEIGHTS + gate)]


def _units_of(o: Operands) -> int:
    return len(o.integers(_WEIGHTS + FORGET))


def _products(o: Operands, first: int, data: float) -> tuple[Array, Array, list[float]]:
    """Return the weights [gates · hidden, ...] in inputs from `first` on, the biases, and each gate's product scale."""
    gates = _gates(o)
    weights = np.concatenate([o.integers(first + gate) for gate in gates])
    biases = np.concatenate([o.integers(_BIASES + gate) for gate in gates])
    return weights, biases, [scale_of(data, o.quantization(first + gate)[0], _GATE_SCALE) for gate in gates]


def _lstm(o: Operands, data: list[float], hidden: tuple[float, int], options: Any) -> IntegerLstm:
    """Return the LSTM's parameters that are the same in each step.

    Args:
        o: Operands of the operator.
        data: Scale of each gate's product with the data.
        hidden: Scale and zero point of the output before a projection.
        options: The operator's options.
    """
    (scale, zero), cell_scale = o.quantization(_HIDDEN), o.quantization(_CELL)[0]
    seen, projected = o.has(_PEEPHOLES + PEEPHOLES.index(FORGET)), o.has(_PROJECTION)
    bits = round(math.log2(cell_scale))
    return IntegerLstm(
        data=tuple(_scale(one) for one in data),
        products=tuple(_scale(one) for one in _products(o, _RECURRENT, scale)[2]),
        peepholes=tuple(
            _scale(scale_of(2.0**bits, o.quantization(at)[0], _GATE_SCALE)) if o.has(at) else Scale(0, 0)
            for at in range(_PEEPHOLES, _PEEPHOLES + len(PEEPHOLES))
        )
        if seen
        else (),
        hidden=_scale(scale_of(2.0**-FRACTION, 2.0**-FRACTION, hidden[0])),
        hidden_zero=hidden[1],
        projection=_scale(scale_of(o.quantization(_PROJECTION)[0], hidden[0], scale)) if projected else None,
        output_zero=zero,
        cell_bits=bits,
        cell_clip=_units(options.CellClip(), cell_scale, "int16"),
        output_clip=_units(options.ProjClip(), scale, "int8"),
    )


def _scale(real: float) -> Scale:
    return Scale(*fixed_point.multiplier_of(real))


def _constants(o: Operands, lstm: IntegerLstm) -> Constants:
    """Return the LSTM's weights, the int32 offsets of its products (which include the zero points), and its tables."""
    weights = _products(o, _RECURRENT, 1.0)[0]
    tables = [
        fixed_point.fixed_logistic(),
        fixed_point.fixed_tanh(_GATE_BITS),
        fixed_point.fixed_tanh(FRACTION + lstm.cell_bits),
    ]
    found = Constants(np.ascontiguousarray(weights.T), _shift(weights, lstm.output_zero), np.stack(tables))
    if lstm.peepholes:
        places, none = range(_PEEPHOLES, _PEEPHOLES + len(PEEPHOLES)), np.zeros(_units_of(o), np.int16)
        found = replace(found, peepholes=np.stack([o.integers(at) if o.has(at) else none for at in places]))
    if lstm.projection is not None:
        last = o.integers(_PROJECTION)
        bias = o.integers(_PROJECTION_BIAS) if o.has(_PROJECTION_BIAS) else 0
        offset = (_shift(last, lstm.hidden_zero) + bias).astype(np.int32)
        found = replace(found, projection=np.ascontiguousarray(last.T), projection_offset=offset)
    return found


def _shift(weights: Array, zero_point: int) -> Array:
    """Return an offset for products with weights [columns, k] that cancels the zero point of the data."""
    return np.asarray(-zero_point * weights.sum(-1, dtype=np.int64), np.int32)


def _units(limit: float, scale: float, dtype: str) -> int:
    """Return a clipping limit as an integer number of `scale` steps; 0 (no clipping) if it is not positive."""
    most = int(np.iinfo(dtype).max)
    return int(min(max(limit / scale, -most - 1), most)) if limit > 0 else 0


def _check(o: Operands, op: Any, options: Any) -> None:
    if o.has(_NORMS + FORGET):
        raise ModelError("its gates are normalised, which is not supported for 8-bit data")
    if options.FusedActivationFunction() != tflite.ActivationFunctionType.TANH:
        raise ModelError(
            f"its activation is {options.FusedActivationFunction()}; for 8-bit data only 4 (tanh) is supported"
        )
    if op.IntermediatesLength() <= _HIDDEN_PLACE:
        raise ModelError(
            "its intermediates, with the quantisation of its output before a projection, are missing"
        )
    if (
        o.tensor(0).tensor.Type() != tflite.TensorType.INT8
        or o.tensor(_CELL).tensor.Type() != tflite.TensorType.INT16
    ):
        raise ModelError("its data is not quantised in int8, or its cell state not in int16")
    scale, zero_point = o.quantization(_CELL)
    bits = math.log2(scale)
    if zero_point or abs(bits - round(bits)) > fixed_point.ALMOST or FRACTION + round(bits) not in _TANH_BITS:
        raise ModelError(
            f"its cell state has scale {scale} and zero point {zero_point}; scales from 2^-15 to 2^-9 and zero "
            "point 0 are "
            "supported"
        )
