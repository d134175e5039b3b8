# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as workloads, float32 and integer, with what they give."""

from typing import Any

import numpy as np

from schedules.composites.transposed_convolution import Geometry
from schedules.composites.workload import Operand, Step, Workload
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.accumulator_bounds import magnitude_of_transposed
from schedules.numerics.qdq.conv2d_transpose import accumulators
from tests.schedules.products import SIGNED, Case, Quant, requantized

# As upsampling networks have them: a kernel of the stride's size, of twice that, of odd size; and all at once.
GEOMETRIES = {
    "2 by 2": Geometry((1, 5, 7, 24), (12, 2, 2, 24), (2, 2), (0, 0, 0, 0), (0, 0), (1, 1), 1),
    "4 by 4": Geometry((1, 4, 6, 17), (9, 4, 4, 17), (2, 2), (1, 1, 1, 1), (0, 0), (1, 1), 1),
    "3 by 3": Geometry((1, 5, 3, 5), (31, 3, 3, 5), (2, 2), (1, 1, 1, 1), (1, 1), (1, 1), 1),
    "stride 1": Geometry((1, 5, 4, 8), (8, 3, 2, 8), (1, 1), (1, 0, 0, 1), (0, 0), (1, 1), 1),
    "uneven": Geometry((2, 4, 3, 3), (1, 3, 5, 3), (2, 3), (0, 2, 1, 1), (1, 2), (1, 2), 1),
}
GROUPED = Geometry((2, 4, 3, 6), (2, 2, 4, 6), (2, 3), (0, 1, 0, 1), (0, 0), (1, 2), 3)
# One output, that the last column alone meets by the last tap: what is left of both axes is a constant.
SINGLE = Geometry((1, 1, 2, 3), (2, 2, 2, 3), (2, 2), (1, 3, 0, 0), (0, 0), (1, 1), 1)
SPARSE = Geometry((1, 3, 3, 2), (5, 1, 1, 2), (2, 2), (0, 0, 0, 0), (1, 0), (1, 1), 1)


def integer_case(geometry: Geometry, quant: Quant = SIGNED) -> Case:
    """Data over its whole range, with `quant.border` as its zero point; a third of the multipliers make ties."""
    rng = np.random.default_rng(3)
    info = np.iinfo(quant.x)
    x = rng.integers(info.min, info.max + 1, geometry.data).astype(quant.x)
    w = rng.integers(-127, 128, geometry.weights).astype(np.int8)
    w.flat[::7] = -128
    columns = geometry.weights[0]
    offset = rng.integers(-9000, 9001, columns).astype(np.int32)
    acc = accumulators(x, w, quant.border, geometry) + offset
    m = (rng.uniform(100, 500, columns) / np.abs(acc).max()).astype(np.float32)
    m[::3] = 2.0 ** np.floor(np.log2(m[::3]))
    step, m, expected = requantized(acc.astype(np.int32), m, 2, quant)
    steps = (Step("offset", Operand(offset.shape, "int32", "constant", 1)), step)
    operands = Operand(x.shape, quant.x, "input", 0), Operand(w.shape, "int8", "constant", 0)
    attributes = {name: str(value) for name, value in geometry.attributes.items()} | {
        "x_zero": str(quant.border)
    }
    limits = magnitude_of_transposed(operands, attributes, steps, [w, offset, m])
    workload = Workload(
        "arm.conv2d_transpose_s8",
        operands,
        tuple(sorted(attributes.items())),
        steps,
        expected.shape,
        quant.y,
        None,
        limits,
    )
    return Case(workload, (x,), (w, offset, m), expected)


def float_case(geometry: Geometry) -> tuple[Workload, list[Array], list[Array], Array]:
    """A workload with bias, residual and PReLU; its inputs, constants and result, exact for small integers."""
    rng = np.random.default_rng(4)

    def values(shape: tuple[int, ...]) -> Array:
        return rng.integers(-9, 10, shape).astype(np.float32)

    attributes: dict[str, Any] = {
        **geometry.attributes,
        "data_layout": "NHWC",
        "kernel_layout": "OHWI",
        "out_layout": "NHWC",
    }
    columns, shape = geometry.weights[0], geometry.output
    workload = Workload(
        "arm.conv2d_transpose",
        (Operand(geometry.data, "float32", "input", 0), Operand(geometry.weights, "float32", "constant", 0)),
        tuple(sorted((name, str(value)) for name, value in attributes.items())),
        (
            Step("bias", Operand((columns,), "float32", "constant", 1)),
            Step("residual", Operand(shape, "float32", "input", 1)),
            Step("prelu", Operand((columns,), "float32", "constant", 2)),
        ),
        shape,
        "float32",
    )
    shapes = (geometry.data, geometry.weights, (columns,), (columns,), shape)
    x, w, bias, slopes, residual = map(values, shapes)
    total = accumulators(x, w.astype(np.int64), 0, geometry) + bias + residual
    return workload, [x, residual], [w, bias, slopes], np.where(total > 0, total, total * slopes)
