# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import pytest

from schedules import generic
from schedules.cores import X86_64
from schedules.numerics.routine import Routine
from schedules.numerics.tosa.resize import MAX_UNITS, MODES, ResizeAxis, axis_of, resize, resize_routine
from tests.schedules.numerics.routines import DECIMAL, UNSIGNED, WIDE, Per, run, values

SIZES = [
    ((9, 8), (18, 16)),
    ((7, 31), (21, 124)),
    ((1, 1), (5, 7)),
    ((8, 9), (64, 72)),
    ((31, 9), (13, 1)),
    ((1, 9), (1, 13)),
    ((9, 8), (4, 3)),
]


def where(mode: str, size: int, out: int) -> np.ndarray:
    """Where the outputs lie, in pixels: ONNX's formulas."""
    i = np.arange(out)
    if mode == "align_corners":
        return i * (size - 1) / (out - 1) if out > 1 else i * 0.0
    if mode == "asymmetric":
        return i * size / out
    if mode == "pytorch_half_pixel" and out == 1:
        return i * 0.0
    return (i + 0.5) * size / out - 0.5


def interpolated(q: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    """In binary64, between the nearest pixels."""
    size = q.shape[axis]
    return np.apply_along_axis(lambda line: np.interp(at, np.arange(size), line), axis, q.astype(np.float64))


def axes(mode: str, size: Sequence[int], out: Sequence[int]) -> list[ResizeAxis]:
    return [axis_of(mode, *pair) for pair in zip(size, out, strict=True)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("size", "out"), SIZES, ids=str)
def test_definition_is_a_rounded_interpolation(mode: str, size: tuple[int, int], out: tuple[int, int]):
    q = values(DECIMAL, (2, *size, 3))
    real = q
    for axis in (1, 2):
        real = interpolated(real, where(mode, size[axis - 1], out[axis - 1]), axis)
    found = resize(q, *axes(mode, size, out))
    # The multiplier has 31 bits: a tie may fall to either side.
    assert np.abs(found - real).max() <= 0.5 + 1e-6
    assert found.shape == (2, *out, 3)


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("x", "mode"), [(UNSIGNED, "half_pixel"), *((DECIMAL, mode) for mode in MODES)], ids=str
)
@pytest.mark.parametrize(("size", "out"), SIZES, ids=str)
def test_routine_equals_numpy(x: Per, mode: str, size: tuple[int, int], out: tuple[int, int]):
    q = values(x, (2, *size, 3))
    expected = resize(q, *axes(mode, size, out))
    routine = resize_routine(q.shape, out, mode, x)
    np.testing.assert_array_equal(run(routine, [q], expected.shape, x.dtype), expected)


def test_channels_in_front():
    q = values(DECIMAL, (2, 5, 7, 3))
    expected = resize(q, *axes("half_pixel", (5, 7), (10, 9))).transpose(0, 3, 1, 2)
    routine = resize_routine((2, 3, 5, 7), (10, 9), "half_pixel", DECIMAL, "NCHW")
    found = run(routine, [q.transpose(0, 3, 1, 2).copy()], expected.shape, "int8")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.each_once
@pytest.mark.parametrize("x", [DECIMAL, UNSIGNED], ids=str)
@pytest.mark.parametrize("out", [(8, 8), (16, 16), (32, 32), (24, 20), (MAX_UNITS, 3)], ids=str)
def test_a_plain_image_stays_plain_at_the_ends_of_the_type(x: Per, out: tuple[int, int]):
    info = np.iinfo(x.dtype)
    for value in (info.min, info.max):
        q = np.full((1, 4, 4, 1), value, x.dtype)
        routine = resize_routine(q.shape, out, "asymmetric", x)
        assert set(run(routine, [q], (1, *out, 1), x.dtype).ravel().tolist()) == {value}


def test_ties_are_rounded_up():
    q = np.array([-3, -2, 4, 5], np.int8).reshape(1, 1, 4, 1)
    assert resize(q, *axes("asymmetric", (1, 4), (1, 8))).ravel().tolist() == [-3, -2, -2, 1, 4, 5, 5, 5]


@pytest.mark.parametrize(
    ("mode", "size", "out", "expected"),
    [
        ("half_pixel", 9, 18, (4, 2, -1, 1)),
        ("half_pixel", 9, 27, (3, 1, -1, 1)),
        ("half_pixel", 18, 9, (2, 4, 1, -1)),
        ("asymmetric", 9, 18, (2, 1, 0, 1)),
        ("align_corners", 9, 17, (2, 1, 0, 0)),
        ("align_corners", 9, 18, (17, 8, 0, 0)),
        ("half_pixel", 1, 7, (7, 1, 0, 6)),
        ("align_corners", 9, 1, (1, 9, 0, -8)),
    ],
)
def test_axis_is_as_tosas_scale_offset_and_border(
    mode: str, size: int, out: int, expected: tuple[int, int, int, int]
):
    axis = axis_of(mode, size, out)
    assert (axis.n, axis.d, axis.offset, axis.border) == expected


def test_attributes_are_those_of_the_axes():
    attrs = resize_routine((1, 9, 8, 3), (18, 24), "half_pixel", DECIMAL).func.attrs
    names = ("n", "d", "offset", "border")
    assert [attrs[f"y_{name}"] for name in names] == [4, 2, -1, 1]
    assert [attrs[f"x_{name}"] for name in names] == [3, 1, -1, 1]
    assert (attrs["numerics"], attrs["layout"]) == ("tosa.resize", "NHWC")


def test_what_has_no_resize():
    with pytest.raises(ValueError, match="not for int16"):
        resize_routine((1, 9, 8, 3), (18, 16), "half_pixel", WIDE)
    with pytest.raises(ValueError, match="not tf_half_pixel_for_nn"):
        resize_routine((1, 9, 8, 3), (18, 16), "tf_half_pixel_for_nn", DECIMAL)
    with pytest.raises(ValueError, match="not for NCHW16c"):
        resize_routine((1, 9, 8, 3), (18, 16), "half_pixel", DECIMAL, "NCHW16c")
    assert axis_of("asymmetric", 3, MAX_UNITS).n == MAX_UNITS
    with pytest.raises(ValueError, match="from 3 to 2050 pixels, n is 2050; RESIZE allows at most 2048"):
        axis_of("asymmetric", 3, 2050)


@pytest.mark.parametrize("channels", [1, 17, 64])
def test_without_a_kernel_of_its_own_it_is_vectors(channels: int):
    q = values(DECIMAL, (1, 5, 7, channels))
    routine = resize_routine(q.shape, (10, 21), "half_pixel", DECIMAL)
    scheduled = generic.schedule(routine.func, X86_64)
    assert channels == 1 or scheduled.done.startswith("vectors of")
    expected = resize(q, *axes("half_pixel", (5, 7), (10, 21)))
    np.testing.assert_array_equal(run(Routine(scheduled.func), [q], expected.shape, "int8"), expected)
