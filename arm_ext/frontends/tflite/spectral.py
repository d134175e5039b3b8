# SPDX-License-Identifier: Apache-2.0
"""TFLite's Fourier transform, as products with constant matrices of cosines and sines.

    RFFT2D(x)[.., h, w] = Σ_i Σ_j x[.., i, j] exp(-2 pi i (h i / H + w j / W))    w = 0 ... W / 2

Complex numbers are pairs of floats along a last axis more. Upstream has kernels for it, of other values.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.forms import Convert, data_of
from arm_ext.frontends.tflite.tensors import is_complex

_R = relax.op


def _rfft2d(c: Any, op: Any) -> relax.Expr:
    x, _ = c.get_input_tensors(op)
    lengths = c.known(op.Inputs(1))
    if lengths is None:
        raise ModelError("its lengths are computed at run time; they must be constants")
    height, width = (int(length) for length in lengths)
    *lead, rows, columns = c.shape(op.Inputs(0))
    value = data_of(c, x)
    missing = max(height - rows, 0), max(width - columns, 0)
    value = c.bb.emit(_R.nn.pad(value, [*[0] * (2 * len(lead)), 0, missing[0], 0, missing[1]]))
    value = _R.strided_slice(value, [len(lead), len(lead) + 1], [0, 0], [height, width])
    real, imaginary = (c.bb.emit(_R.matmul(value, wave)) for wave in _waves(width, width // 2 + 1))
    if height > 1:
        cosines, sines = _waves(height, height)
        real, imaginary = (
            c.bb.emit(_R.subtract(_R.matmul(cosines, real), _R.matmul(sines, imaginary))),
            c.bb.emit(_R.add(_R.matmul(cosines, imaginary), _R.matmul(sines, real))),
        )
    return _R.stack([real, imaginary], -1)


def _waves(size: int, bins: int) -> tuple[relax.Expr, relax.Expr]:
    """[size, bins] of cosines, and of sines with the transform's sign."""
    # The product of the indices is taken modulo the length while it is exact.
    angles: npt.NDArray[Any] = -2 * np.pi * (np.outer(np.arange(size), np.arange(bins)) % size / size)
    return relax.const(np.cos(angles), "float32"), relax.const(np.sin(angles), "float32")


def _cast(c: Any, op: Any) -> relax.Expr:
    """Convert CAST; a cast of complex to real numbers takes the real part."""
    x = c.tensor(op.Inputs(0))
    if not is_complex(x) or is_complex(output := c.tensor(op.Outputs(0))):
        return c.convert_cast(op)
    value = data_of(c, x)
    real = _R.squeeze(_R.strided_slice(value, [len(value.ty.shape) - 1], [0], [1]), [-1])
    return _R.astype(real, c.get_tensor_type_str(output.tensor.Type()))


SPECTRAL: dict[str, Convert] = {"CAST": _cast, "RFFT2D": _rfft2d}
"""TFLite's operator name → what converts it."""
