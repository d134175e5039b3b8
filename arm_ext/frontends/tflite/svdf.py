# SPDX-License-Identifier: Apache-2.0
"""TFLite's SVDF: this frame and earlier ones times a matrix of rank r; the state holds the earlier frames' projections.

    state[f] = state[f, 1:], x W_f      y[u] = activation(b[u] + sum of state * time over the filters of u and M frames)

Float data; with 8-bit weights, rounded as in `sequences`; and data of 8 bits with a state of 16 or 8, in LiteRT's
integers.
"""

from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.codes import SVDF_STATE
from arm_ext.frontends.tflite.fixed_point import scale_of
from arm_ext.frontends.tflite.integers import product, saturated, scaled, whole
from arm_ext.frontends.tflite.operands import options_of, shape_of
from arm_ext.frontends.tflite.sequences import Operands, activation_of, operands_of

_R = relax.op

_DATA, _FEATURES, _TIME, _BIAS = range(4)


def svdf(c: Any, op: Any) -> relax.Expr:
    """Convert an SVDF operator; the result is float or int8.

    Raises:
        ModelError: The operator has an unsupported form.
    """
    options, o = options_of(op, tflite.SVDFOptions), operands_of(c, op)
    filters, frames = shape_of(o.tensor(_TIME))
    rows = shape_of(o.tensor(_DATA))[0]
    if (
        shape_of(o.tensor(SVDF_STATE)) != (rows, filters * frames)
        or options.Rank() < 1
        or filters % options.Rank()
    ):
        raise ModelError(
            f"its state or its rank {options.Rank()} does not fit {filters} filters of {frames} frames"
        )
    form = _Form(o, rows, filters, frames, filters // options.Rank())
    if o.tensor(_DATA).qnn_params:
        if options.FusedActivationFunction() != tflite.ActivationFunctionType.RELU:
            raise ModelError(
                f"its activation is {options.FusedActivationFunction()}; for 8-bit data only 1 (ReLU) is supported"
            )
        return _integer(form, c.tensor(op.Outputs(0)))
    new = o.product(o.value(_DATA), [_FEATURES])
    total = form.total(new, relax.const(c.get_tensor_value(o.tensor(_TIME))), 0)
    if o.has(_BIAS):
        total = _R.add(total, o.joined([_BIAS]))
    return activation_of(options.FusedActivationFunction())(total)


class _Form:
    """The sizes of an SVDF, and the computation of one frame."""

    def __init__(self, o: Operands, rows: int, filters: int, frames: int, units: int) -> None:
        self.o, self.rows, self.filters, self.frames, self.units = o, rows, filters, frames, units

    def total(self, new: relax.Expr, time: relax.Expr, zero_point: int) -> relax.Expr:
        """Add the newest frame to the state, and return the weighted sums of its frames by unit.

        Args:
            new: [rows, filters], of the state's type.
            time: Weights [filters, frames], in the state's type or in int32, in which products are then computed.
            zero_point: Zero point of the state.
        """
        emit = self.o.c.bb.emit
        state = self.o.state(SVDF_STATE)
        dtype = str(state.ty.dtype)
        old = emit(_R.reshape(state, (self.rows, self.filters, self.frames)))
        newest = emit(_R.reshape(new, (self.rows, self.filters, 1)))
        seen = emit(_R.concat([_R.strided_slice(old, [2], [1], [self.frames]), newest], 2))
        self.o.keep(SVDF_STATE, seen)
        wide = str(self.o.c.bb.normalize(time).ty.dtype)
        if wide != dtype:
            seen = _R.subtract(_R.astype(seen, wide), whole(zero_point, wide))
        products = emit(_R.multiply(seen, time))
        return emit(_R.sum(_R.reshape(products, (self.rows, self.units, -1)), [2]))


def _integer(form: _Form, output: Any) -> relax.Expr:
    o, emit = form.o, form.o.c.bb.emit
    dtype = o.c.get_tensor_type_str(o.tensor(SVDF_STATE).tensor.Type())
    if dtype not in ("int8", "int16") or o.tensor(_DATA).tensor.Type() != tflite.TensorType.INT8:
        raise ModelError(f"its data is not int8, or its state ({dtype}) is neither int8 nor int16")
    (x_scale, x_zero), (w_scale, _), (t_scale, _), (s_scale, s_zero) = (
        o.quantization(at) for at in (_DATA, _FEATURES, _TIME, SVDF_STATE)
    )
    features = product(o.c.value(int(o.numbers[_DATA])), x_zero, o.integers(_FEATURES))
    newest = _R.add(scaled(features, scale_of(x_scale, w_scale, s_scale)), whole(s_zero))
    new = emit(saturated(emit(newest), dtype))
    total = form.total(new, whole(o.integers(_TIME).astype(np.int32)), s_zero)
    if o.has(_BIAS):
        total = emit(_R.add(total, whole(o.integers(_BIAS).astype(np.int32))))
    y_scale, y_zero = (output.qnn_params[key].value.numpy().item() for key in ("scale", "zero_point"))
    y = _R.add(scaled(total, scale_of(s_scale, t_scale, y_scale)), whole(y_zero))
    return saturated(emit(y), "int8")
