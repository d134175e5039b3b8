# SPDX-License-Identifier: Apache-2.0
"""The model against LiteRT's reference kernels, where Vela's streams have what TOSA does not lead to."""

import numpy as np
import pytest

from arm_ext.ethosu.model import run
from arm_ext.ethosu.vela.compiler import compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.model.litert import run_reference_kernels
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

SHAPE = (1, 6, 7, 9)
ROWS = (1, 12, 33)


def same_shape(
    builder: TfliteBuilder,
    name: str,
    dtype: str,
    scales: tuple[float, ...],
    zeros: tuple[int, ...],
    **options: object,
) -> None:
    """An operator of tensors of one shape; the last scale and zero point are the output's."""
    shape = ROWS if name == "SOFTMAX" else SHAPE
    inputs = [
        builder.take(dtype, *shape, scale=s, zero=z) for s, z in zip(scales[:-1], zeros[:-1], strict=True)
    ]
    output = builder.tensor(dtype, *shape, scale=scales[-1], zero=zeros[-1])
    builder.op(name, inputs, [output], **options)


def bilinear(builder: TfliteBuilder, factor: int, *, half_pixel: bool) -> None:
    rows, columns = SHAPE[1] * factor, SHAPE[2] * factor
    value = builder.take("int8", *SHAPE, scale=0.1, zero=3)
    output = builder.tensor("int8", 1, rows, columns, SHAPE[3], scale=0.1, zero=3)
    options = {"halfPixelCenters": half_pixel, "alignCorners": False}
    builder.op("RESIZE_BILINEAR", [value, builder.hold([rows, columns])], [output], **options)


CASES = {
    "leaky_relu": lambda b: same_shape(b, "LEAKY_RELU", "int8", (0.1, 0.07), (3, -5), alpha=0.13),
    "leaky_relu_int16": lambda b: same_shape(b, "LEAKY_RELU", "int16", (0.001, 0.0007), (0, 0), alpha=0.13),
    "softmax": lambda b: same_shape(b, "SOFTMAX", "int8", (0.1, 1 / 256), (3, -128), beta=1.0),
    "softmax_int16": lambda b: same_shape(b, "SOFTMAX", "int16", (0.001, 1 / 32768), (0, 0), beta=1.0),
    "add": lambda b: same_shape(b, "ADD", "int8", (0.1, 0.037, 0.12), (3, -7, -5)),
    "add_int16": lambda b: same_shape(b, "ADD", "int16", (0.1, 0.037, 0.12), (0, 0, 0)),
    "average_pool": lambda b: same_shape(
        b, "AVERAGE_POOL_2D", "int8", (0.1, 0.1), (3, 3), strideW=1, strideH=1, filterWidth=3, filterHeight=3
    ),
    "bilinear_2": lambda b: bilinear(b, 2, half_pixel=False),
    "bilinear_2_half_pixel": lambda b: bilinear(b, 2, half_pixel=True),
    "bilinear_8": lambda b: bilinear(b, 8, half_pixel=False),
}


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-512"])
@pytest.mark.parametrize("name", CASES)
def test_operator_equals_litert(name: str, npu: str) -> None:
    builder = TfliteBuilder()
    CASES[name](builder)
    network = builder.build()
    payload = compile_network(network, "TFLITE", ACCELERATORS[npu]).payload
    values = [v.reshape(t.shape) for v, t in zip(builder.values(), payload.inputs, strict=True)]
    (found,) = run(payload, values)
    expected = run_reference_kernels(network, values)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
