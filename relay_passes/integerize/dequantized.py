# SPDX-License-Identifier: Apache-2.0
"""The integers that a dequantize makes real.

dequantize(x)        x, with the scale and zero point
dequantize(int32)    if computed at run time, the accumulators of an integer operator of the source
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.ir import Call, GenericConst, Var

from relay_passes.integerize.context import Context
from relay_passes.integerize.values import UNBOUNDED, Quantized, Refusal, Sum
from relay_passes.sources import sources_of


def dequantized(context: Context, call: Call) -> Quantized | Sum | Refusal:
    """The integers that stand for what a dequantize gives."""
    data, scale, zero_point = call.args
    if not (isinstance(scale, GenericConst) and isinstance(zero_point, GenericConst)):
        return Refusal("its scale or zero point is not a constant")
    data = context.constants.get(data, data) if isinstance(data, Var) else data
    shape = [1] * len(data.ty.shape)
    s, z = scale.value.numpy(), zero_point.value.numpy().astype(np.int64)
    # One number, or one for each element of an axis.
    s, z = (a.reshape(()) if a.size == 1 else a.reshape(_along(shape, call.attrs.axis)) for a in (s, z))
    if str(data.ty.dtype) == "int32" and not isinstance(data, GenericConst):
        return _accumulators(call, s, z)
    return Quantized(data, s.astype(np.float32), z, sources_of(call))


def _accumulators(call: Call, scale: npt.NDArray[Any], zero_point: npt.NDArray[Any]) -> Sum:
    rank = (1,) * len(call.ty.shape)
    return Sum(
        value=call.args[0],
        offset=-zero_point * np.ones(rank, np.int64),
        magnitude=-int(np.iinfo(np.int32).min),
        input_scale=1.0,
        weight_scale=(scale * np.ones(rank)).astype(np.float32),
        count=np.ones(rank, np.float32),
        bounds=UNBOUNDED,
        names=sources_of(call),
        data_dtype="int32",
    )


def _along(shape: list[int], axis: int) -> list[int]:
    shape = list(shape)
    shape[axis] = -1
    return shape
