# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that put elements elsewhere, in float and in int8, against LiteRT."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder, random_values

X = (2, 9, 8, 6)
QUANTIZED = {"scale": 0.1, "zero": -7}

Case = Callable[[TfliteBuilder, str], list[np.ndarray]]
"""Builds one operator on tensors of a dtype; returns the inputs."""


def take(m: TfliteBuilder, dtype: str, *shape: int) -> tuple[int, np.ndarray]:
    number = m.take(dtype, *shape, **(QUANTIZED if dtype == "int8" else {}))
    return number, random_values(m.rng, dtype, shape)


def give(m: TfliteBuilder, dtype: str, *shape: int) -> int:
    return m.tensor(dtype, *shape, **(QUANTIZED if dtype == "int8" else {}))


def _of(
    op: str, x: tuple[int, ...], *ys: tuple[int, ...], held: tuple[object, ...] = (), **options: object
) -> Case:
    """One tensor and integer constants in, one tensor or several out."""

    def build(m: TfliteBuilder, dtype: str) -> list[np.ndarray]:
        number, value = take(m, dtype, *x)
        constants = [m.hold(each) for each in held]
        m.op(op, [number, *constants], [give(m, dtype, *y) for y in ys], **options)
        return [value]

    return build


def _dynamic_update_slice(start: tuple[int, int]) -> Case:
    def build(m: TfliteBuilder, dtype: str) -> list[np.ndarray]:
        (x, a), (update, b), at = take(m, dtype, 5, 6), take(m, dtype, 2, 3), m.take("int32", 2)
        m.op("DYNAMIC_UPDATE_SLICE", [x, update, at], [give(m, dtype, 5, 6)])
        return [a, b, np.array(start, np.int32)]

    return build


def _scatter(places: object, updates: tuple[int, ...], shape: tuple[int, ...]) -> Case:
    def build(m: TfliteBuilder, dtype: str) -> list[np.ndarray]:
        at, (x, value), size = m.hold(places), take(m, dtype, *updates), m.hold(shape)
        m.op("SCATTER_ND", [at, x, size], [give(m, dtype, *shape)])
        return [value]

    return build


def _select(op: str, condition: tuple[int, ...]) -> Case:
    def build(m: TfliteBuilder, dtype: str) -> list[np.ndarray]:
        where, (x, a), (y, b) = m.take("bool", *condition), take(m, dtype, 3, 4), take(m, dtype, 3, 4)
        m.op(op, [where, x, y], [give(m, dtype, 3, 4)])
        return [np.arange(np.prod(condition)).reshape(condition) % 3 == 0, a, b]

    return build


def _embedding(m: TfliteBuilder, dtype: str) -> list[np.ndarray]:
    places = m.take("int32", 3)
    table = m.hold(m.rng.integers(-99, 99, (5, 3, 4)), dtype, **(QUANTIZED if dtype == "int8" else {}))
    m.op("EMBEDDING_LOOKUP", [places, table], [give(m, dtype, 3, 3, 4)])
    return [np.array([4, 0, 2], np.int32)]


def _sparse(m: TfliteBuilder, dtype: str) -> list[np.ndarray]:
    places, size, (x, value) = m.hold([[0, 1], [2, 3]]), m.hold([3, 4]), take(m, dtype, 2)
    default = m.hold(5, dtype, **(QUANTIZED if dtype == "int8" else {}))
    m.op("SPARSE_TO_DENSE", [places, size, x, default], [give(m, dtype, 3, 4)])
    return [value]


BORDERS = [[0, 0], [2, 1], [1, 3], [0, 0]]
CASES: dict[str, Case] = {
    "reflected": _of("MIRROR_PAD", X, (2, 12, 12, 6), held=(BORDERS,), mode=0),
    "symmetric": _of("MIRROR_PAD", X, (2, 12, 12, 6), held=(BORDERS,), mode=1),
    "gather batched": _of("GATHER", X, (2, 9, 3, 6), held=([[0, 5, 2], [1, 1, 7]],), axis=2, batchDims=1),
    "gather from the end": _of("GATHER", X, (2, 9, 8, 2, 2), held=([[0, 5], [1, 1]],), axis=-1),
    "gather nd": _of("GATHER_ND", X, (3, 8, 6), held=([[0, 1], [1, 8], [1, 2]],)),
    "split the rest": _of(
        "SPLIT_V", X, *((2, n, 8, 6) for n in (2, 3, 4)), held=([2, -1, 4], 1), numSplits=3
    ),
    "space to batch": _of("SPACE_TO_BATCH_ND", (1, 7, 6, 3), (6, 4, 3, 3), held=([2, 3], [[1, 0], [2, 1]])),
    "line to batch": _of("SPACE_TO_BATCH_ND", (1, 7, 3), (2, 4, 3), held=([2], [[0, 1]])),
    "batch to space": _of("BATCH_TO_SPACE_ND", (6, 4, 3, 3), (1, 7, 6, 3), held=([2, 3], [[1, 0], [2, 1]])),
    "update a slice": _dynamic_update_slice((1, 2)),
    "update a slice that reaches out": _dynamic_update_slice((4, -1)),
    "scatter": _scatter([[4], [1], [7]], (3,), (9,)),
    "scatter rows": _scatter([[2], [0]], (2, 3, 5), (4, 3, 5)),
    "scatter by a grid": _scatter([[[0, 1], [2, 2]], [[1, 0], [0, 3]]], (2, 2, 5), (3, 4, 5)),
    "select rows": _select("SELECT", (3,)),
    "select": _select("SELECT_V2", (3, 1)),
    "embedding": _embedding,
}
FLOAT_CASES: dict[str, Case] = {
    "scatter and add": _scatter([[1], [1], [0]], (3, 2), (3, 2)),
    "sums from the end": _of("CUMSUM", X, X, held=(1,), exclusive=True, reverse=True),
    "gelu by tanh": _of("GELU", X, X, approximate=True),
    "diagonal": _of("MATRIX_DIAG", (2, 3), (2, 3, 3)),
    "sparse": _sparse,
}
BOTH = [
    pytest.param(case, dtype, id=f"{name} {dtype}")
    for name, case in CASES.items()
    for dtype in ("float32", "int8")
]


@pytest.mark.parametrize(
    ("case", "dtype"),
    [*BOTH, *(pytest.param(case, "float32", id=name) for name, case in FLOAT_CASES.items())],
)
def test_equals_litert(tmp_path: Path, case: Case, dtype: str):
    m = TfliteBuilder()
    inputs = case(m, dtype)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    ours, theirs = run_on_host(import_tflite(path).mod, inputs), run_litert(path.read_bytes(), inputs)
    for found, expected in zip(ours, theirs, strict=True):
        # Sums, and one function that LiteRT approximates otherwise.
        bound = 2e-6 * np.abs(expected).max() if dtype == "float32" else 0
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def test_what_there_is_no_code_for_is_refused(tmp_path: Path):
    m = TfliteBuilder()
    x = m.take("float32", 2, 3)
    m.op("MULTINOMIAL", [x, x], [m.tensor("float32", 2, 3, name="drawn")])
    m.op("LSTM", [x, x, x, x, x], [m.tensor("float32", 2, 3, name="cell")])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    with pytest.raises(ModelError, match=r"LSTM \(1x\): cell\n  MULTINOMIAL \(1x\): drawn"):
        import_tflite(path)
