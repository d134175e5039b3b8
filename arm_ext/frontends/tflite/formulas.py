# SPDX-License-Identifier: Apache-2.0
"""TFLite operators with some constant operands, for which TVM's converters require all to be constant."""

from typing import Any

import numpy as np
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.forms import Convert, data_of
from arm_ext.frontends.tflite.tensors import constant

_R = relax.op


def _fill(c: Any, op: Any) -> relax.Expr:
    """Convert FILL with a run-time value and constant sizes."""
    sizes = c.known(op.Inputs(0))
    if sizes is None:
        raise ModelError("its sizes are computed at run time; they must be constants")
    _, value = c.get_input_tensors(op)
    return _R.broadcast_to(data_of(c, value), [int(size) for size in sizes])


def _densify(c: Any, op: Any) -> relax.Expr:
    """Convert DENSIFY of constant sparse weights to a dense constant."""
    c.convert_densify(op)
    return constant(np.asarray(c.get_prefetched_node(op.Outputs(0))))


FORMULAS: dict[str, Convert] = {
    "DENSIFY": _densify,
    "FILL": _fill,
}
"""TFLite's operator name → its converter."""
