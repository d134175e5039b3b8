# SPDX-License-Identifier: Apache-2.0
"""Integers less their zero point."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.context import Context
from relay_passes.integerize.values import Quantization, Quantized
from relay_passes.sources import Names


def centred(w: Quantized) -> npt.NDArray[np.integer[Any]]:
    """A constant less its zero point, in 8 bits where it fits."""
    assert w.constant is not None
    wide = w.constant.astype(np.int64) - w.zero_point
    fitting = (t for t in (np.int8, np.int16, np.int32) if _fits(wide, t))
    return np.asarray(wide.astype(next(fitting)))


def _fits(values: npt.NDArray[np.int64], dtype: type[np.integer[Any]]) -> bool:
    info = np.iinfo(dtype)
    return int(values.min(initial=0)) >= info.min and int(values.max(initial=0)) <= info.max


def centred_data(context: Context, x: Quantized, xq: Quantization, names: Names) -> Expr:
    """Data less their zero point; as they are where that is 0."""
    return widened(context, x, xq, wide_dtype(x), names) if xq.zero_point else x.value


def widened(context: Context, x: Quantized, xq: Quantization, dtype: str, names: Names) -> Expr:
    """Data less their zero point, of a dtype that holds them."""
    wide = context.emit(R.astype(x.value, dtype), names)
    return context.emit(R.subtract(wide, relax.const(np.array(xq.zero_point, dtype))), names)


def wide_dtype(*tensors: Quantized) -> str:
    """Of integers that hold all of these tensors less their zero points."""
    return "int16" if max(x.magnitude for x in tensors) < math.ldexp(1, 8) else "int32"
