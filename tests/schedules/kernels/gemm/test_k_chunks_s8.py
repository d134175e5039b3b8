# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.gemm import implicit_rows as implicit
from schedules.kernels.gemm.k_chunks_s8 import Reading, whole
from schedules.kernels.gemm.product import NOTHING, reordered


def convolution(channels: int, unit: int) -> Reading:
    """3 x 3, without a border."""
    return Reading.in_vectors(implicit.convolution((1, 9, 9, channels), (3, 3), (1, 1), (1, 1), 1), unit)


@pytest.mark.parametrize("unit", [4, 8])
@pytest.mark.parametrize("depth", [1, 3, 4, 7, 8, 12, 15, 16, 17, 20, 28, 31, 44, 65, 73])
def test_every_k_is_read_once_and_nothing_outside_of_the_row(depth: int, unit: int):
    reading = Reading.in_vectors(implicit.linear(3, depth), unit)
    order, (chunks,) = reading.order(), reading.chunks()
    assert sorted(order[order != NOTHING]) == list(range(depth))
    assert order.size == reading.depth == sum(chunk.used for chunk in chunks)
    assert all(chunk.used % unit == 0 for chunk in chunks)
    length = order.size if reading.is_staged else depth
    assert all(chunk.offset >= 0 and chunk.offset + chunk.size <= length for chunk in chunks)
    # What is used holds, in its order, what `order` says.
    read = np.concatenate([np.arange(c.offset + c.first, c.offset + c.size) for c in chunks])
    assert (read[order != NOTHING] == order[order != NOTHING]).all()


def test_less_than_a_vector_may_reach_back_too():
    reading = Reading(implicit.linear(3, 13), 8, is_staged=False)
    assert [(chunk.offset, chunk.size, chunk.at) for chunk in reading.chunks()[0]] == [(0, 8, 0), (5, 8, 8)]
    assert reading.order().tolist() == [*range(8), NOTHING, NOTHING, NOTHING, *range(8, 13)]


def test_only_short_segments_are_staged():
    assert [convolution(channels, 4).is_staged for channels in (3, 4, 17)] == [True, False, False]
    assert [convolution(channels, 8).is_staged for channels in (3, 4, 8)] == [True, True, False]


@pytest.mark.parametrize(("channels", "lanes"), [(1, 3), (2, 5), (3, 7), (5, 12)])
def test_gathered_segments_share_the_lanes_of_what_is_behind_whole_ones(channels: int, lanes: int):
    rows = implicit.convolution((1, 9, 9, channels), (3, 3), (1, 1), (1, 1), 1)
    reading = Reading.in_vectors(rows, 4, may_gather=True)
    order, (chunks,) = reading.order(), reading.chunks()
    assert reading.is_gathered
    assert not reading.is_staged
    assert order.size == reading.depth == sum(chunk.used for chunk in chunks) == 4 * lanes
    assert sorted(order[order != NOTHING]) == list(range(9 * channels))
    assert [chunk.at for chunk in chunks] == [sum(c.used for c in chunks[:i]) for i in range(len(chunks))]


def test_segments_of_whole_lanes_or_of_several_lengths_are_not_gathered():
    assert not Reading.in_vectors(implicit.linear(1, 12), 4, may_gather=True).is_gathered
    assert not Reading.in_vectors(implicit.linear(1, 17), 4, may_gather=True).is_gathered


def test_27_bytes_of_three_channels_take_whole_units():
    assert convolution(3, 4).order().size == 28
    assert convolution(3, 8).order().size == 32


def test_segments_follow_each_other():
    chunks = [chunk for segment in convolution(4, 4).chunks() for chunk in segment]
    assert [(c.offset, c.size, c.at) for c in chunks] == [
        (0, 8, 0),
        (8, 4, 8),
        (36, 8, 12),
        (44, 4, 20),
        (72, 8, 24),
        (80, 4, 32),
    ]


def test_what_reaches_back_is_no_part_of_a_loop():
    # The last has 16 bytes, too, of which seven were read before.
    (chunks,) = Reading.in_vectors(implicit.linear(1, 73), 8).chunks()
    assert [chunk.size for chunk in chunks] == [16] * 5
    assert whole(chunks) == 4
    (chunks,) = Reading.in_vectors(implicit.linear(1, 28), 4).chunks()
    assert (chunks[1].size, chunks[1].first, whole(chunks)) == (16, 4, 1)


def test_weights_follow_the_order():
    weights = np.arange(1, 35, dtype=np.int8).reshape(1, 2, 17)
    packed = reordered(weights, Reading.in_vectors(implicit.linear(1, 17), 4).order())
    np.testing.assert_array_equal(packed[0, 0], [*range(1, 17), 0, 0, 0, 17])
