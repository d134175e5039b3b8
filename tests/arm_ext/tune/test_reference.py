# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.tune.reference import Sample, sample
from tests.arm_ext.tune.standins import tasks


def test_a_sample_is_what_the_composite_computes() -> None:
    first, second = map(sample, tasks())
    (x,), (w, b) = first.inputs, first.constants
    # Sums of 31 products of values near 1; both sides round at 2**-24.
    np.testing.assert_allclose(first.expected, np.maximum(x @ w + b, 0), rtol=0, atol=1e-4)
    np.testing.assert_allclose(second.expected, second.inputs[0] @ second.constants[0], rtol=0, atol=1e-4)


def test_an_integer_may_not_differ_in_one_bit_and_a_float_within_its_bound() -> None:
    integers = np.arange(6, dtype=np.int8).reshape(2, 3)
    exact = Sample((), (), integers, 0.0)
    assert exact.fault(integers) == ""
    assert (
        exact.fault(integers + (integers == 4)) == "1 of 6 values differ; the first, at (1, 1), is 5, not 4"
    )
    floats = np.float32([1.0, -2.0])
    close = Sample((), (), floats, 1e-4)
    assert close.fault(floats + np.float32(1e-4)) == ""
    assert "more than 0.0001" in close.fault(floats + np.float32(1e-3))
    assert "more than" in close.fault(np.float32([1.0, np.nan]))


def test_an_output_that_was_not_written_is_wrong_everywhere() -> None:
    for expected, bound in ((np.arange(9, dtype=np.int8), 0.0), (np.ones(9, np.float32), 1e-4)):
        of = Sample((), (), expected, bound)
        unwritten = of.unwritten()
        assert unwritten.dtype == expected.dtype
        assert all(of.fault(np.where(np.arange(9) == i, unwritten, expected)) for i in range(9))
