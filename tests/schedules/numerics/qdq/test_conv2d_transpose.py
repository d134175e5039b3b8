# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.composites.transposed_convolution import Geometry
from schedules.numerics.qdq.conv2d_transpose import accumulators, conv2d_transpose_routine
from tests.schedules.numerics.routines import BELOW_POWER, ODD_POWER, UNSIGNED, WIDE, Per, run
from tests.schedules.transposed_cases import GEOMETRIES, GROUPED, SINGLE, SPARSE


def _by_hand(x: np.ndarray, w: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Each value adds its multiple of the kernel to where it meets the output."""
    out = np.zeros(geometry.output, np.int64)
    columns, depth = geometry.weights[0], geometry.data[3] // geometry.groups
    for n, iy, ix, i in np.ndindex(*geometry.data):
        for o, ky, kx in np.ndindex(*geometry.weights[:3]):
            oy = iy * geometry.strides[0] + ky * geometry.dilation[0] - geometry.padding[0]
            ox = ix * geometry.strides[1] + kx * geometry.dilation[1] - geometry.padding[1]
            if 0 <= oy < out.shape[1] and 0 <= ox < out.shape[2]:
                out[n, oy, ox, i // depth * columns + o] += x[n, iy, ix, i] * w[o, ky, kx, i]
    return out


@pytest.mark.parametrize("name", ["3 by 3", "uneven", "grouped", "single", "sparse"])
def test_definition(name: str):
    geometry = {**GEOMETRIES, "grouped": GROUPED, "single": SINGLE, "sparse": SPARSE}[name]
    rng = np.random.default_rng(5)
    x, w = rng.integers(-128, 128, geometry.data), rng.integers(-128, 128, geometry.weights)
    np.testing.assert_array_equal(accumulators(x, w, 7, geometry), _by_hand(x - 7, w, geometry))


@pytest.mark.each_once
@pytest.mark.parametrize("per", [BELOW_POWER, ODD_POWER, UNSIGNED, WIDE], ids=str)
@pytest.mark.parametrize("geometry", [*GEOMETRIES.values(), GROUPED, SINGLE, SPARSE], ids=str)
def test_routine_equals_numpy(geometry: Geometry, per: Per):
    rng = np.random.default_rng(3)
    x, w = rng.choice(per.every, geometry.data), rng.integers(-128, 128, geometry.weights).astype(np.int8)
    expected = accumulators(x, w, per.zero_point, geometry)
    routine = conv2d_transpose_routine(geometry, per, w, "int32")
    np.testing.assert_array_equal(run(routine, [x], expected.shape, "int32"), expected)


def test_parameters_can_be_read():
    w = np.zeros(GROUPED.weights, np.int8)
    attributes = conv2d_transpose_routine(GROUPED, UNSIGNED, w, "int32").func.attrs
    assert (attributes["numerics"], int(attributes["x_zero"])) == ("qdq.conv2d_transpose", 131)
    text = {name: str(attributes[name]) for name in GROUPED.attributes}
    assert Geometry.read(GROUPED.data, GROUPED.weights, text) == GROUPED
