# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from arm_ext.package.manifest import Calibration, FloatDistance
from arm_ext.quantization.accuracy import Accuracy, selftest_distances, warnings

SAME, FAR = (FloatDistance(output="y", sqnr_db=db, relative=0.1) for db in (20.0, 5.0))


def _calibration(distance: FloatDistance, selftest: FloatDistance) -> Calibration:
    return Calibration(
        method="minmax",
        samples=4,
        sha256="0" * 64,
        compared=4,
        distance=[distance],
        selftest=[selftest],
        largest={"x": 1.0},
    )


def test_distances_add_up_over_samples():
    accuracy = Accuracy(["y"])
    for sign in (1.0, -1.0):
        accuracy.add([np.array([sign * 10.0, 1.0], np.float32)], [np.array([sign * 10.0, 0.0], np.float32)])
    # Squares of the references are 100 + 100, of the differences 1 + 1: a ratio of 100.
    assert accuracy.distances() == [FloatDistance(output="y", sqnr_db=20.0, relative=0.1)]
    assert accuracy.compared == 2


@pytest.mark.parametrize(
    ("value", "reference", "sqnr"),
    [
        ([1.0], [1.0], 200.0),
        ([1.0], [0.0], -100.0),
        ([np.nan], [1.0], -100.0),
        ([np.nan], [np.nan], 200.0),
        ([], [], 200.0),
    ],
)
def test_what_has_no_ratio_is_the_best_or_the_worst(value: list[float], reference: list[float], sqnr: float):
    (found,) = selftest_distances(["y"], [np.array(value)], [np.array(reference)])
    assert found.sqnr_db == sqnr
    assert np.isfinite(found.relative)


def test_no_float_model_has_no_distances():
    assert selftest_distances(["y"], [np.zeros(1)], []) == []


def test_far_on_the_samples_is_a_warning():
    (told,) = warnings(_calibration(FAR, SAME), {"x": np.ones(1)})
    assert "on 4 calibration samples: y has an SQNR of 5 dB (bound 10 dB)" in told


@pytest.mark.parametrize(("reached", "count"), [(4.0, 0), (9.0, 1)])
def test_far_in_the_self_test_is_one_if_its_inputs_leave_the_samples_far_behind(reached: float, count: int):
    assert len(warnings(_calibration(SAME, FAR), {"x": np.array([-reached])})) == count


def test_near_is_none():
    assert warnings(_calibration(SAME, SAME), {"x": np.array([1000.0])}) == []
    assert warnings(None, {}) == []
