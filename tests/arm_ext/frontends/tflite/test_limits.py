# SPDX-License-Identifier: Apache-2.0
"""Options, constants and scales beyond their limits are refused, by node, name, value and limit."""

from pathlib import Path

import numpy as np
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

IMAGE = (1, 8, 8, 4)
Shape = tuple[int, ...]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


WEIGHTS, DEPTHWISE = ones(4, 3, 3, 4), ones(1, 3, 3, 4)
STRIDES = {"strideW": 1, "strideH": 1, "padding": 1}
DILATIONS = {"dilationWFactor": 1, "dilationHFactor": 1}
CONV, POOL = STRIDES | DILATIONS, STRIDES | {"filterWidth": 3, "filterHeight": 3}

# Operator, shapes of inputs or constants, shapes of outputs, options, what the message says.
CASES: dict[str, tuple[str, list[object], list[Shape], dict[str, object], str]] = {
    "stride 0": (
        "CONV_2D",
        [IMAGE, WEIGHTS],
        [(1, 6, 6, 4)],
        CONV | {"strideW": 0},
        "StrideW is 0, and must be from 1",
    ),
    "stride -1": ("CONV_2D", [IMAGE, WEIGHTS], [(1, 6, 6, 4)], CONV | {"strideH": -1}, "StrideH is -1"),
    "dilation 0": (
        "CONV_2D",
        [IMAGE, WEIGHTS],
        [(1, 6, 6, 4)],
        CONV | {"dilationHFactor": 0},
        "DilationHFactor is 0",
    ),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        [IMAGE, DEPTHWISE],
        [(1, 6, 6, 4)],
        CONV | {"strideW": 0},
        "StrideW is 0",
    ),
    "pool stride": ("MAX_POOL_2D", [IMAGE], [(1, 6, 6, 4)], POOL | {"strideW": 0}, "StrideW is 0"),
    "pool filter": (
        "AVERAGE_POOL_2D",
        [IMAGE],
        [(1, 6, 6, 4)],
        POOL | {"filterWidth": 0},
        "FilterWidth is 0",
    ),
    "repeats": ("TILE", [(2, 3), np.array([-1, 1])], [(2, 3)], {}, r"repeats is \[-1, 1\]"),
    "repeats 2^30": ("TILE", [(2, 3), np.full(2, 2**30)], [(2, 3)], {}, "TILE node"),
    "padding": ("PAD", [(2, 3), np.array([[-3, 0], [0, 0]])], [(2, 3)], {}, r"padding is \[-3, 0, 0, 0\]"),
    "shape": ("RESHAPE", [(2, 3), np.array([-5, 2])], [(2, 3)], {}, "shape is"),
    "fill": ("FILL", [np.array([-1]), ()], [(1,)], {}, "shape is -1"),
    "step": ("RANGE", [np.array(k) for k in (0, 5, 0)], [(3,)], {}, "step is 0"),
    "depth": (
        "ONE_HOT",
        [np.array([1]), np.array(-1), ones(), ones()],
        [(1, 3)],
        {"axis": -1},
        "depth is -1",
    ),
    "size": ("RESIZE_BILINEAR", [(1, 4, 4, 2), np.array([0, 0])], [(1, 0, 0, 2)], {}, r"size is \[0, 0\]"),
    "k": ("TOPK_V2", [(2, 3), np.array(-1)], [(2, 1), (2, 1)], {}, "k is -1"),
    "splits": ("SPLIT", [np.array(1), (2, 6)], [(2, 3), (2, 3)], {"numSplits": 0}, "NumSplits is 0"),
    "split axis": (
        "SPLIT",
        [np.array(9), (2, 6)],
        [(2, 3), (2, 3)],
        {"numSplits": 2},
        "axis is 9, and must be from -2",
    ),
    "strides": (
        "STRIDED_SLICE",
        [(2, 6), *(np.array(v) for v in ([0, 0], [2, 4], [0, 1]))],
        [(2, 4)],
        {},
        "strides is",
    ),
    "order": (
        "TRANSPOSE",
        [(2, 6), np.array([0, 0])],
        [(2, 6)],
        {},
        r"order is \[0, 0\], and must be an order of",
    ),
    "concatenation": ("CONCATENATION", [(2, 6), (2, 6)], [(2, 12)], {"axis": 7}, "Axis is 7"),
    "mean": ("MEAN", [(2, 6), np.array([1, 1])], [(2,)], {}, r"axis is \[1, 1\], and must be no axis twice"),
    "sums": ("CUMSUM", [(2, 6), np.array(7)], [(2, 6)], {}, "axis is 7"),
    "gather": ("GATHER", [(2, 6), np.array([0])], [(2, 1)], {"axis": 9}, "Axis is 9"),
    "new axis": (
        "EXPAND_DIMS",
        [(2, 6), np.array(9)],
        [(2, 6, 1)],
        {},
        "axis is 9, and must be from -3 to 2",
    ),
    "squeeze": ("SQUEEZE", [(1, 6)], [(6,)], {"squeezeDims": [9]}, "SqueezeDims is 9"),
    "block": ("DEPTH_TO_SPACE", [(1, 4, 4, 4)], [(1, 8, 8, 1)], {"blockSize": 2**16}, "BlockSize is 65536"),
    "block of space": ("SPACE_TO_DEPTH", [(1, 4, 4, 4)], [(1, 8, 8, 1)], {"blockSize": 0}, "BlockSize is 0"),
    "radius": (
        "LOCAL_RESPONSE_NORMALIZATION",
        [(1, 4, 4, 4)],
        [(1, 4, 4, 4)],
        {"radius": -5},
        "Radius is -5",
    ),
    "unpack": (
        "UNPACK",
        [(2, 6)],
        [(6,), (6,)],
        {"axis": 0, "num": 5},
        "Num is 5, and must be the 2 of the axis",
    ),
    "input": ("ABS", [(2**31 - 1, 2**31 - 1)], [(2**31 - 1, 2**31 - 1)], {}, "need 48 EiB for the samples"),
    "negative": ("ABS", [(-4,)], [(-4,)], {}, "a size cannot be negative"),
    "broadcast": ("ADD", [(2**20, 1), (1, 2**21)], [(2**20, 2**21)], {}, "takes 8 TiB"),
}


def built(
    operator: str, given: list[object], results: list[Shape], options: dict[str, object]
) -> TfliteBuilder:
    m, numbers = TfliteBuilder(), []
    for value in given:
        if isinstance(value, np.ndarray):
            numbers.append(m.hold(value, "float32" if value.dtype.kind == "f" else "int32"))
        else:
            numbers.append(m.take("float32", *value))
    m.op(operator, numbers, [m.tensor("float32", *shape) for shape in results], **options)
    return m


@pytest.mark.parametrize("case", CASES)
def test_beyond_limits(tmp_path: Path, case: str):
    *model, says = CASES[case]
    (tmp_path / "model.tflite").write_bytes(built(*model).build())
    with pytest.raises(ModelError, match=says):
        import_tflite(tmp_path / "model.tflite")


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_scales(tmp_path: Path, scale: float):
    m = TfliteBuilder()
    m.op("ABS", [m.take("int8", 4, scale=scale)], [m.tensor("int8", 4, scale=0.1)])
    (tmp_path / "model.tflite").write_bytes(m.build())
    with pytest.raises(
        ModelError, match=f"tensor 't0' has the scale {scale}; a scale must be finite and above 0"
    ):
        import_tflite(tmp_path / "model.tflite")
