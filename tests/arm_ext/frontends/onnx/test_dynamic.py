# SPDX-License-Identifier: Apache-2.0
"""ONNX's integer products have hand-written kernels, and the same values as onnxruntime."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import resolve
from tests.arm_ext.frontends.onnx.dynamic_models import Arrays, product
from tests.arm_ext.frontends.onnx.one_node import set_output_shapes
from tests.arm_ext.frontends.onnx.quantized_cases import CASES as STATIC
from tests.arm_ext.frontends.onnx.quantized_cases import SCALES

Made = tuple[onnx.ModelProto, Arrays]
SHAPES = ((1, 9, 8, 7), (10, 9, 3, 3), (1, 10, 8, 7))
PADS = {"pads": [1, 1, 1, 1]}
PRODUCTS = ("ConvInteger", "MatMulInteger")


def conv(*shapes: tuple[int, ...], **options: object) -> Callable[[], Made]:
    return lambda: product("ConvInteger", *(shapes or SHAPES), **options)  # type: ignore[arg-type]


def matmul(*data: int, columns: int = 9, **options: object) -> Callable[[], Made]:
    shapes = (data, (data[-1], columns), (*data[:-1], columns))
    return lambda: product("MatMulInteger", *shapes, **options)  # type: ignore[arg-type]


CASES: dict[str, Callable[[], Made]] = {
    "conv, int8": conv(**PADS, dtype="int8"),
    "conv": conv(**PADS, w_zero=121),
    "conv, data of constants": conv(**PADS, w_zero=121, x_zero="constant"),
    "conv, sums": conv(**PADS, w_zero=121, x_zero="input", to_float=False),
    "conv, no zero points": conv(**PADS, x_zero="none", to_float=False),
    "conv, strides": conv((2, 8, 9, 9), (7, 8, 3, 3), (2, 7, 4, 4), strides=[2, 2], w_zero=130),
    "conv, groups": conv((1, 16, 9, 9), (16, 8, 3, 3), (1, 16, 9, 9), group=2, w_zero=121, **PADS),
    "conv, run-time zero point of weights": conv(**PADS, w_zero="input"),
    "depthwise": conv((1, 8, 9, 9), (8, 1, 3, 3), (1, 8, 9, 9), group=8, w_zero=121, **PADS),
    "matmul": matmul(7, 31, w_zero=121),
    "matmul, by channel": matmul(7, 31, w_zero=np.arange(9) * 20),
    "matmul, batch": matmul(3, 7, 32, columns=16, w_zero=121),
    "matmul, data of constants": matmul(8, 31, w_zero=121, x_zero="constant"),
    "matmul, sums": matmul(7, 31, w_zero=121, x_zero="input", to_float=False),
    "matmul, no zero points": matmul(1, 31, x_zero="none", to_float=False, dtype="int8"),
    "matmul, run-time zero point of weights": matmul(7, 31, w_zero="input"),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_has_a_hand_written_kernel(make: Callable[[], Made]):
    proto, _ = make()
    start, options = PhaseResult(import_onnx(proto).mod), PhaseOptions(resolve("neoverse-n2"))
    kernels = last(run_phases(start, options, until="lower")).kernels
    of_product = {k.kernel for k in kernels if any(name in PRODUCTS for name in k.sources)}
    assert of_product & {"gemm_s8_mmla", "depthwise_f32"}
    loops = [k.symbol for k in kernels if k.kernel == "generic" and "ConvInteger" in k.symbol]
    assert not [name for name in loops if "conv2d" in name or "matmul" in name]


@pytest.mark.parametrize("case", ["conv_u8", "depthwise_uint8", "gemm"])
def test_static_weights_of_uint8_have_hand_written_kernels(case: str):
    node = STATIC[case](SCALES["decimal"])
    proto, inputs = node.build(), node.values()
    expected = run_onnxruntime(proto.SerializeToString(), inputs, integers=True)
    set_output_shapes(proto, expected)
    imported, options = import_onnx(proto), PhaseOptions(resolve("neoverse-n2"))
    results = dict(run_phases(PhaseResult(imported.mod), options, until="lower"))
    kernels = {kernel.kernel for kernel in results["lower"].kernels}
    assert kernels & {"gemm_s8_mmla", "depthwise_f32"}, kernels
    (found,) = run_on_host(results["integerize"].mod, inputs)
    away = np.abs(found.astype(int) - expected[0])
    assert away.max() <= 1, "a tie goes one step the other way"
    assert (away > 0).mean() <= SCALES["decimal"].ties


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_has_the_values_of_onnxruntime(make: Callable[[], Made]):
    proto, inputs = make()
    (expected,) = run_onnxruntime(proto.SerializeToString(), inputs, integers=True)
    start, options = PhaseResult(import_onnx(proto).mod), PhaseOptions(resolve("neoverse-n2"))
    mod = last(run_phases(start, options, until="integerize")).mod
    (found,) = run_on_host(mod, inputs)
    assert found.dtype == expected.dtype
    if found.dtype == np.int32:
        np.testing.assert_array_equal(found, expected)
    else:
        # Scales are applied in another order, which rounds differently.
        np.testing.assert_allclose(found, expected, rtol=0, atol=4 * 2.0**-24 * np.abs(expected).max())
