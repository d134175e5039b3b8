# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.frontends.common.inputs import other_inputs, with_lengths


def test_lengths_and_masks_are_as_large_as_the_data():
    data, lengths, mask = np.ones((2, 9, 4), np.float32), np.zeros(2, np.int64), np.zeros((2, 9), bool)
    longest, ones, zeros = other_inputs([data, lengths, mask])
    assert longest[1].tolist() == [9, 9]
    assert longest[2].all()
    assert ones[1].tolist() == [1, 1]
    assert all(np.array_equal(each[0], data) for each in (longest, ones))
    assert not any(value.any() for value in zeros)


def test_lengths_of_samples_are_as_great_as_their_data():
    tokens, lengths, scales = np.ones((1, 61), np.int64), np.zeros(1, np.int64), np.ones(3, np.float32)
    found = with_lengths([tokens, lengths, scales])
    assert found is not None
    assert found[1].tolist() == [61]
    assert found[0] is tokens
    assert found[2] is scales
    # Of two lists the shorter one; integers of another number than samples, or of 16 bits, are no lengths.
    assert with_lengths([np.ones((2, 9)), np.ones((2, 5)), np.zeros(2, np.int32)])[2].tolist() == [5, 5]
    assert with_lengths([np.ones((2, 9)), np.zeros(3, np.int64), np.zeros(2, np.int16)]) is None
    assert with_lengths([np.zeros(1, np.int64)]) is None
