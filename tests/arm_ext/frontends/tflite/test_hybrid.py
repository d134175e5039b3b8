# SPDX-License-Identifier: Apache-2.0
"""Float TFLite operators with 8-bit weights, on this machine, against LiteRT's default kernels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tflite

from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder, random_values, single_operators

FLOAT32_KWS = Path(__file__).parents[5] / "shared" / "models" / "kws_ref_model_float32.tflite"
# The rounding of a sum of a few hundred products. Data left as they are differ by 5e-3, those rounded over another
# range by as much, and one value on the other side of a tie by 1e-4.
BOUND = 2e-6
A_STEP = 5e-4

Case = Callable[[TfliteBuilder], int]


def _product(
    op: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], *, axis: int = 0, **options: object
) -> Case:
    def build(m: TfliteBuilder) -> int:
        scale = 0.013 * (1 + np.arange(y[-1]) % 5)
        data, weight = m.take("float32", *x), m.weight(*w, scale=scale, axis=axis)
        bias = m.hold(m.rng.standard_normal(y[-1]), "float32")
        m.op(op, [data, weight, bias], [m.tensor("float32", *y)], **options)
        return data

    return build


def _conv(*args: tuple[int, ...], op: str = "CONV_2D", **options: object) -> Case:
    return _product(op, *args, **{"strideH": 1, "strideW": 1, **options})


def _depthwise(*args: tuple[int, ...], **options: object) -> Case:
    return _conv(*args, op="DEPTHWISE_CONV_2D", axis=3, **options)


def _fully_connected(*args: tuple[int, ...], **options: object) -> Case:
    return _product("FULLY_CONNECTED", *args, **options)


def _without_bias(m: TfliteBuilder) -> int:
    x = m.take("float32", 2, 31)
    m.op("FULLY_CONNECTED", [x, m.weight(9, 31, scale=0.013), -1], [m.tensor("float32", 2, 9)])
    return x


def _half_bytes(m: TfliteBuilder) -> int:
    x, values = m.take("float32", 2, 32), m.rng.integers(-7, 8, (8, 32))
    weight = m.hold(values, "int8", scale=0.1 * (1 + np.arange(8) % 3))
    low, high = (values & 15).reshape(-1, 2).T
    m.tensors[weight].type = tflite.TensorType.INT4
    m.buffers[-1].data = list(low | high << 4)
    m.op("FULLY_CONNECTED", [x, weight], [m.tensor("float32", 2, 8)])
    return x


def _transposed(m: TfliteBuilder) -> int:
    size, weight = m.hold([2, 8, 14, 5]), m.weight(5, 3, 3, 3, scale=0.013 * (1 + np.arange(5)))
    x = m.take("float32", 2, 4, 7, 3)
    m.op("TRANSPOSE_CONV", [size, weight, x], [m.tensor("float32", 2, 8, 14, 5)], strideH=2, strideW=2)
    return x


def _matmul(adjoint_x: bool, adjoint_y: bool) -> Case:
    def build(m: TfliteBuilder) -> int:
        x = m.take("float32", *((2, 31, 3) if adjoint_x else (2, 3, 31)))
        weight = m.weight(*((9, 31) if adjoint_y else (31, 9)), scale=0.013)
        m.op("BATCH_MATMUL", [x, weight], [m.tensor("float32", 2, 3, 9)], adjX=adjoint_x, adjY=adjoint_y)
        return x

    return build


IMAGE = (2, 9, 8, 6)
CASES: dict[str, Case] = {
    "conv": _conv(IMAGE, (7, 3, 2, 6), (2, 9, 8, 7), fusedActivationFunction=1),
    "conv strided": _conv(IMAGE, (7, 3, 2, 6), (2, 4, 4, 7), padding=1, strideH=2, strideW=2),
    "conv dilated": _conv(IMAGE, (7, 3, 3, 6), (2, 9, 8, 7), dilationHFactor=2, dilationWFactor=2),
    "conv in groups": _conv(IMAGE, (6, 3, 3, 2), (2, 9, 8, 6)),
    "pixels": _conv(IMAGE, (7, 1, 1, 6), (2, 9, 8, 7)),
    "pixels strided": _conv(IMAGE, (7, 1, 1, 6), (2, 5, 4, 7), strideH=2, strideW=2),
    "pixels in groups": _conv(IMAGE, (8, 1, 1, 3), (2, 9, 8, 8)),
    "depthwise": _depthwise(IMAGE, (1, 3, 3, 6), IMAGE, depthMultiplier=1),
    "depthwise times 2": _depthwise(
        IMAGE,
        (1, 3, 3, 12),
        (2, 5, 4, 12),
        depthMultiplier=2,
        strideH=2,
        strideW=2,
        fusedActivationFunction=1,
    ),
    "fc": _fully_connected((3, 31), (9, 31), (3, 9), fusedActivationFunction=1),
    "fc of 3 axes": _fully_connected((2, 3, 31), (9, 31), (2, 3, 9), keepNumDims=True),
    "fc flattening": _fully_connected((2, 5, 3), (9, 15), (2, 9)),
    "fc without bias": _without_bias,
    "fc of 4 bits": _half_bytes,
    "transpose conv": _transposed,
    **{f"matmul {x}{y}": _matmul(x == "T", y == "T") for x in "NT" for y in "NT"},
}


def error(folder: Path, model: bytes, values: list[np.ndarray]) -> float:
    """Return the largest difference from LiteRT's output, relative to the largest output."""
    path = folder / "model.tflite"
    path.write_bytes(model)
    (found,), (expected,) = run_on_host(import_tflite(path).mod, values), run_litert(model, values)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_operator_equals_litert(tmp_path: Path, case: Case):
    m = TfliteBuilder()
    shape = tuple(m.tensors[case(m)].shape)
    for code in m.codes:
        # Of the first versions, hybrid forms are none, or symmetric.
        code.version = {"TRANSPOSE_CONV": 3, "BATCH_MATMUL": 4}.get(_name(code.builtinCode), 6)
    # Ranges that differ from image to image, from row to row, and are not centred on 0.
    spread = 1 + np.arange(np.prod(shape[:-1])).reshape(*shape[:-1], 1) % 7
    values = (3 * m.rng.standard_normal(shape) * spread + 1).astype(np.float32)
    assert error(tmp_path, m.build(), [values]) < BOUND


def _name(code: int) -> str:
    names = {number: name for name, number in vars(tflite.BuiltinOperator).items()}
    return str(names[code])


@pytest.mark.parametrize("name", ["conv", "depthwise", "fc"])
def test_nothing_but_zeros_in_an_image(tmp_path: Path, name: str):
    m = TfliteBuilder()
    shape = tuple(m.tensors[CASES[name](m)].shape)
    for code in m.codes:
        code.version = 6
    values = m.rng.standard_normal(shape).astype(np.float32)
    values[0] = 0
    assert error(tmp_path, m.build(), [values]) < BOUND


@pytest.fixture
def kws() -> Path:
    if not FLOAT32_KWS.is_file():
        pytest.skip(f"{FLOAT32_KWS} is not there")
    return FLOAT32_KWS


@pytest.mark.parametrize("number", [0, 1, 2, None], ids=["conv", "depthwise", "pixels", "whole"])
def test_trained_hybrid_model(tmp_path: Path, kws: Path, number: int | None):
    model = kws.read_bytes() if number is None else single_operators(kws)[number][1]
    (tmp_path / "one.tflite").write_bytes(model)
    (spec,) = import_tflite(tmp_path / "one.tflite").inputs
    values = random_values(np.random.default_rng(2), spec.dtype, spec.shape)
    # A value beside a tie, whose last bit the float layer before it left otherwise, moves by a whole step.
    assert error(tmp_path, model, [values]) < (A_STEP if number is None else BOUND)
