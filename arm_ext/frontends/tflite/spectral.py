# SPDX-License-Identifier: Apache-2.0
"""TFLite's Fourier transform, and casts of its complex results.

    RFFT2D(x)[.., h, w] = Σ_i Σ_j x[.., i, j] exp(-2 pi i (h i / H + w j / W))    w = 0 ... W / 2

Complex numbers are pairs of floats along a last axis more. Upstream has kernels for it, of other values.
"""

from typing import Any

from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Graph
from arm_ext.frontends.ops.fourier import Fourier, fourier
from arm_ext.frontends.tflite.operands import Convert, data_of
from arm_ext.frontends.tflite.tensors import is_complex

_R = relax.op


def _rfft2d(c: Any, op: Any) -> relax.Expr:
    x, _ = c.get_input_tensors(op)
    lengths = c.known(op.Inputs(1))
    if lengths is None:
        raise ModelError("its lengths are computed at run time; they must be constants")
    height, width = (int(length) for length in lengths)
    *lead, rows, columns = c.shape(op.Inputs(0))
    data = data_of(c, x)
    if rows > height:
        rows, data = height, c.bb.emit(_R.strided_slice(data, [len(lead)], [0], [height]))
    data = c.bb.emit(_R.reshape(data, [*lead, rows, 1, columns]))
    data = fourier(Graph(c.bb).hold(data), Fourier(width, width // 2 + 1)).full
    last = [len(lead), len(lead) + 1, len(lead) + 2]
    if (rows, height) == (1, 1):
        return _moved(data, last, [0, 2, 1])
    data = fourier(Graph(c.bb).hold(_moved(data, last, [2, 1, 0])), Fourier(height, height)).full
    return _moved(data, last, [2, 0, 1])


def _moved(x: relax.Expr, axes: list[int], order: list[int]) -> relax.Expr:
    """Return `x` with its last axes permuted; the other axes stay."""
    return _R.permute_dims(x, [*range(axes[0]), *(axes[k] for k in order)])


def _cast(c: Any, op: Any) -> relax.Expr:
    """Convert CAST; a cast of complex to real numbers takes the real part."""
    x = c.tensor(op.Inputs(0))
    if not is_complex(x) or is_complex(output := c.tensor(op.Outputs(0))):
        return c.convert_cast(op)
    value = data_of(c, x)
    real = _R.squeeze(_R.strided_slice(value, [len(value.ty.shape) - 1], [0], [1]), [-1])
    return _R.astype(real, c.get_tensor_type_str(output.tensor.Type()))


SPECTRAL: dict[str, Convert] = {"CAST": _cast, "RFFT2D": _rfft2d}
"""TFLite's operator name → its converter."""
