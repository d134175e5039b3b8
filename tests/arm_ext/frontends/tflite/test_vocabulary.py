# SPDX-License-Identifier: Apache-2.0
"""Operators that are formulas of others, against LiteRT."""

from pathlib import Path

import numpy as np
import pytest

from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder, schema

# Sums of some dozens of products in binary32, relative to the largest.
BOUND = 2e-6


def check(folder: Path, m: TfliteBuilder, outputs: list[int], *inputs: np.ndarray) -> None:
    model = m.build(*outputs)
    (folder / "model.tflite").write_bytes(model)
    found = run_on_host(import_tflite(folder / "model.tflite").mod, inputs)
    for ours, theirs in zip(found, run_litert(model, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=BOUND * np.abs(theirs).max())


def _complex(m: TfliteBuilder, *shape: int) -> int:
    number = m.tensor("float32", *shape)
    m.tensors[number].type = schema.TensorType.COMPLEX64
    return number


@pytest.mark.parametrize(
    ("rows", "columns", "lengths"),
    [
        *((1, length, (1, length)) for length in (16, 512)),
        # The transforms of other lengths are those of tests/arm_ext/frontends/ops/test_fourier.py.
        *(pytest.param(1, length, (1, length), marks=pytest.mark.long) for length in (256, 1024, 2048)),
        *(
            (4, 8, (4, 8)),
            (2, 7, (2, 8)),
            (3, 9, (2, 4)),
            (3, 9, (1, 8)),
            (1, 400, (2, 512)),
            (256, 8, (256, 8)),
        ),
    ],
)
def test_fourier_transform(tmp_path: Path, rows: int, columns: int, lengths: tuple[int, int]):
    m = TfliteBuilder()
    bins = lengths[1] // 2 + 1
    wave, flat = _complex(m, 3, lengths[0], bins), _complex(m, 3 * lengths[0], bins)
    m.op("RFFT2D", [m.take("float32", 3, rows, columns), m.hold(lengths)], [wave])
    m.op("RESHAPE", [wave, m.hold([-1, bins])], [flat])
    outputs = [m.tensor("float32", 3 * lengths[0], bins) for _ in range(4)]
    for name, output in zip(["REAL", "IMAG", "COMPLEX_ABS", "CAST"], outputs, strict=True):
        m.op(name, [flat], [output])
    check(tmp_path, m, outputs, *m.values())


def test_value_of_run_time_is_filled_in(tmp_path: Path):
    m = TfliteBuilder()
    m.op("FILL", [m.hold([2, 3]), m.take("float32")], [m.tensor("float32", 2, 3)])
    check(tmp_path, m, m.operators[-1].outputs, np.array(1.5, np.float32))


@pytest.mark.parametrize("slopes", [(1, 1, 9), (9,), (7, 1, 9), (7, 8, 9)], ids=str)
def test_prelu(tmp_path: Path, slopes: tuple[int, ...]):
    m = TfliteBuilder()
    held = m.hold(np.random.default_rng(0).uniform(-0.5, 1, slopes).astype("float32"))
    m.op("PRELU", [m.take("float32", 2, 7, 8, 9), held], [m.tensor("float32", 2, 7, 8, 9)])
    check(tmp_path, m, m.operators[-1].outputs, *m.values())
    called = import_tflite(tmp_path / "model.tflite").mod.script()
    # Slopes of channels alone stay a vector, which the kernel of a product before takes.
    assert ("axis=-1" in called) == (slopes[:-1] in ((), (1, 1)))
