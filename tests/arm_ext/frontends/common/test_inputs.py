# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.frontends.common.inputs import other_inputs


def test_lengths_and_masks_are_as_large_as_the_data():
    data, lengths, mask = np.ones((2, 9, 4), np.float32), np.zeros(2, np.int64), np.zeros((2, 9), bool)
    longest, ones, zeros = other_inputs([data, lengths, mask])
    assert longest[1].tolist() == [9, 9]
    assert longest[2].all()
    assert ones[1].tolist() == [1, 1]
    assert all(np.array_equal(each[0], data) for each in (longest, ones))
    assert not any(value.any() for value in zeros)
