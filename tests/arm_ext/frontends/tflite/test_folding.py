# SPDX-License-Identifier: Apache-2.0
"""Operators of constants, against LiteRT."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder, schema

INT32 = schema.TensorType.INT32

Case = Callable[[TfliteBuilder], int]


def _of(
    op: str, *values: object, shape: tuple[int, ...] = (3,), dtype: str = "int32", **options: object
) -> Case:
    def build(m: TfliteBuilder) -> int:
        y = m.tensor(dtype, *shape)
        m.op(op, [m.hold(value) for value in values], [y], **options)
        return y

    return build


A, B = [7, -7, 3], [2, 2, -2]
ROWS = [[1, 2, 3], [4, 5, 6]]
CASES: dict[str, Case] = {
    **{op.lower(): _of(op, A, B) for op in ("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM")},
    **{op.lower(): _of(op, A, B, dtype="bool") for op in ("LESS", "GREATER_EQUAL", "NOT_EQUAL")},
    "neg": _of("NEG", A),
    "cast": _of("CAST", A, dtype="float32"),
    "pack": _of("PACK", A, B, shape=(3, 2), axis=1, valuesCount=2),
    "concatenation": _of("CONCATENATION", A, B, shape=(6,)),
    "gather": _of("GATHER", ROWS, [2, 0], shape=(2, 2), axis=1),
    "product": _of("REDUCE_PROD", ROWS, [1], shape=(2,)),
    "product kept": _of("REDUCE_PROD", ROWS, [0], shape=(1, 3), keepDims=True),
    "slice": _of("SLICE", ROWS, [0, 1], [2, -1], shape=(2, 2)),
    "strided": _of("STRIDED_SLICE", ROWS, [0, 2], [1, 0], [1, -1], shape=(2,), shrinkAxisMask=1),
    "masked": _of("STRIDED_SLICE", ROWS, [1, 9], [9, 2], [1, 1], shape=(2, 2), beginMask=3, endMask=1),
    "range": _of("RANGE", 1, 7, 2),
    "fill": _of("FILL", [2, 2], 5, shape=(2, 2)),
    "tile": _of("TILE", A, [2], shape=(6,)),
    "transpose": _of("TRANSPOSE", ROWS, [1, 0], shape=(3, 2)),
    "expand": _of("EXPAND_DIMS", A, 0, shape=(1, 3)),
    "shape": _of("SHAPE", shape=(2,), outType=INT32),
}


def test_constants_equal_litert(tmp_path: Path):
    m = TfliteBuilder()
    x = m.take("float32", 2, 5)
    outputs = [case(m) for case in CASES.values()]
    m.operators[-1].inputs = [x]
    (tmp_path / "model.tflite").write_bytes(m.build(*outputs))
    imported = import_tflite(tmp_path / "model.tflite")
    assert "R.add" not in str(imported.mod["main"])
    inputs = [np.zeros((2, 5), np.float32)]
    found = run_on_host(imported.mod, inputs)
    for name, ours, theirs in zip(CASES, found, run_litert(m.build(*outputs), inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name, strict=True)


def test_sizes_that_are_taken_apart_are_constants(tmp_path: Path):
    m = TfliteBuilder()
    x, sizes = m.take("float32", 2, 6), m.tensor("int32", 2)
    m.op("SHAPE", [x], [sizes], outType=INT32)
    first, second, none = (m.tensor("int32", n) for n in (1, 1, 0))
    m.op("SPLIT_V", [sizes, m.hold([1, -1, 0]), m.hold(0)], [first, second, none], numSplits=3)
    halves = [m.tensor("int32", 1) for _ in range(2)]
    m.op("SPLIT", [m.hold(0), sizes], halves, numSplits=2)
    numbers = [m.tensor("int32") for _ in range(2)]
    m.op("UNPACK", [sizes], numbers, num=2)
    scalar, wanted, y = m.tensor("int32"), m.tensor("int32", 3), m.tensor("float32", 6, 1, 2)
    m.op("RESHAPE", [second, m.hold([])], [scalar])  # the file has no bytes for a shape of no dimensions
    m.op("PACK", [scalar, m.hold(1), numbers[0]], [wanted], valuesCount=3)
    m.op("RESHAPE", [x, wanted], [y])
    outputs = [first, second, *halves, *numbers, y]
    (tmp_path / "model.tflite").write_bytes(m.build(*outputs))
    imported = import_tflite(tmp_path / "model.tflite")
    inputs = [np.arange(12, dtype=np.float32).reshape(2, 6)]
    found = run_on_host(imported.mod, inputs)
    for ours, theirs in zip(found, run_litert(m.build(*outputs), inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_a_squeeze_keeps_the_axes_that_it_does_not_name(tmp_path: Path):
    m = TfliteBuilder()
    x, y = m.take("float32", 1, 1, 3, 1), m.tensor("float32", 1, 1, 3)
    m.op("SQUEEZE", [x], [y], squeezeDims=[-1])
    for number, signature in ((x, [-1, -1, 3, 1]), (y, [-1, -1, 3])):
        m.tensors[number].shapeSignature = signature
    (tmp_path / "model.tflite").write_bytes(m.build(y))
    imported = import_tflite(tmp_path / "model.tflite", {"t0": (2, 1, 3, 1)})
    data = np.arange(6, dtype=np.float32)
    (found,) = run_on_host(imported.mod, [data.reshape(2, 1, 3, 1)])
    np.testing.assert_array_equal(found, data.reshape(2, 1, 3), strict=True)


def test_what_must_be_constant_is_named(tmp_path: Path):
    m = TfliteBuilder()
    x, k = m.take("float32", 5), m.take("int32")
    m.op("TOPK_V2", [x, k], [m.tensor("float32", 2), m.tensor("int32", 2)])
    (tmp_path / "model.tflite").write_bytes(m.build())
    with pytest.raises(
        ModelError, match=r"TOPK_V2 node .*'t1' is computed at run time; it must be a constant"
    ):
        import_tflite(tmp_path / "model.tflite")
