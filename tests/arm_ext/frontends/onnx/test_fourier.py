# SPDX-License-Identifier: Apache-2.0
"""DFT and STFT against numpy."""

import math

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper, numpy_helper

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.selftest import run_on_host

# Relative to the greatest; see tests/arm_ext/frontends/common/test_fourier.py.
BOUND = 16 * 2.0**-24

# The longer ones have two factors of which the others are made, too.
LENGTHS = (7, 8, 31, 60, *(pytest.param(length, marks=pytest.mark.long) for length in (9, 12, 400)))
LONG_512 = pytest.param(512, marks=pytest.mark.long)


def model_of(
    node: NodeProto, x: np.ndarray, opset: int, **constants: np.ndarray | np.int64
) -> onnx.ModelProto:
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def dft(x: np.ndarray, axis: int, opset: int, length: int | None = None, **flags: int) -> onnx.ModelProto:
    """A model of a DFT node."""
    constants = {} if length is None else {"n": np.int64(length)}
    names, attributes = ["x", "n" if constants else ""], {**flags, **({"axis": axis} if opset < 20 else {})}
    if opset >= 20:
        names.append("axis")
        constants["axis"] = np.int64(axis)
    return model_of(helper.make_node("DFT", names, ["y"], name="dft", **attributes), x, opset, **constants)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def parts_of(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], axis=-1)


def check(model: onnx.ModelProto, x: np.ndarray, wanted: np.ndarray, bound: float = BOUND) -> None:
    (got,) = run_on_host(import_onnx(model).mod, [x])
    assert (got.shape, got.dtype) == (wanted.shape, x.dtype)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * np.abs(wanted).max())


@pytest.mark.each_once
@pytest.mark.parametrize("length", [None, 10, 9, 7, 12])
@pytest.mark.parametrize("opset", [17, 20])
def test_inverse_of_one_side(length: int | None, opset: int):
    x = floats(1, 6, 2)
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis=1)[..., None]
    check(dft(x, 1, opset, length, inverse=1, onesided=1), x, wanted)


@pytest.mark.parametrize("length", LENGTHS)
def test_one_side_of_real_data(length: int):
    x = floats(2, 3, length, 1)
    check(dft(x, 2, 20, onesided=1), x, parts_of(np.fft.rfft(x[..., 0])))


@pytest.mark.parametrize("length", LENGTHS)
def test_one_side_backwards(length: int):
    x = floats(2, length // 2 + 1, 2)
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length)[..., None]
    check(dft(x, 1, 17, length, inverse=1, onesided=1), x, wanted)


@pytest.mark.each_once
@pytest.mark.parametrize("length", [9, 60, LONG_512])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_complex_data_along_each_axis(length: int, inverse: int, axis: int):
    shape = [2, 3, 4]
    shape[axis if axis >= 0 else axis + 1] = length
    x = floats(*shape, 2)
    function = np.fft.ifft if inverse else np.fft.fft
    wanted = function(x[..., 0] + 1j * x[..., 1], axis=axis if axis >= 0 else axis + 1)
    check(dft(x, axis, 20, inverse=inverse), x, parts_of(wanted))


@pytest.mark.parametrize(
    ("length", "given"),
    [(60, 50), (60, 400), *(pytest.param(512, n, marks=pytest.mark.long) for n in (50, 600))],
)
def test_length_that_is_not_the_datas(length: int, given: int):
    x = floats(3, given, 1)
    check(dft(x, 1, 17, length), x, parts_of(np.fft.fft(x[..., 0], length)))


def test_binary64_is_as_exact():
    x = floats(2, 256, 1).astype(np.float64)
    check(dft(x, 1, 17, onesided=1), x, parts_of(np.fft.rfft(x[..., 0])), bound=16 * 2.0**-53)


@pytest.mark.parametrize(
    ("size", "step"),
    [(7, 3), (60, 31), *(pytest.param(*each, marks=pytest.mark.long) for each in ((400, 160), (512, 128)))],
)
@pytest.mark.parametrize("parts", [0, 1, 2], ids=["vector", "real", "complex"])
def test_stft_is_the_transform_of_windowed_frames(size: int, step: int, parts: int):
    x = floats(2, 3 * size + 5, *([parts] if parts else []))
    window = np.hanning(size).astype(np.float32)
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=int(parts < 2))
    model = model_of(node, x, 17, step=np.int64(step), window=window)
    z = x if not parts else x[..., 0] + (1j * x[..., 1] if parts > 1 else 0)
    count = (z.shape[1] - size) // step + 1
    frames = np.stack([z[:, k * step :][:, :size] for k in range(count)], axis=1) * window.astype(float)
    check(model, x, parts_of((np.fft.fft if parts > 1 else np.fft.rfft)(frames)))


@pytest.mark.parametrize("length", [256, 400, 512, 1000, 1024, 2048])
def test_long_transforms_take_a_fraction_of_the_dense_products(length: int):
    x = floats(4, length, 1)
    (macs,) = count_macs(import_onnx(dft(x, 1, 17, onesided=1)).mod).values()
    dense = math.prod(x.shape) * 2 * (length // 2 + 1)
    assert macs < dense / (length**0.5 / 4)
