# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels import sdot_rows
from schedules.kernels.product_s8 import Product, product_of
from tests.schedules.products import Case, conv, linear


def _product(case: Case) -> Product:
    product = product_of(case.workload, "any")
    assert isinstance(product, Product)
    return product


@pytest.mark.parametrize("depth", [1, 3, 4, 7, 8, 12, 15, 16, 17, 20, 31, 44, 65])
def test_every_k_is_read_once_and_nothing_outside_of_the_row(depth: int):
    product = _product(linear((3,), depth, 1))
    order, (chunks,) = sdot_rows.k_order(product), sdot_rows.chunks_of(product)
    assert sorted(order[order != sdot_rows.NOTHING]) == list(range(depth))
    assert order.size == 4 * sum(chunk.steps for chunk in chunks)
    length = order.size if sdot_rows.is_staged(product) else depth
    assert all(chunk.offset >= 0 and chunk.offset + chunk.size <= length for chunk in chunks)
    # The lanes in their order hold what `k_order` says.
    read = np.concatenate([np.arange(c.offset + c.first, c.offset + c.size) for c in chunks])
    assert (read[order != sdot_rows.NOTHING] == order[order != sdot_rows.NOTHING]).all()


def test_only_short_segments_are_staged():
    assert sdot_rows.is_staged(_product(conv((1, 9, 9, 3), 1, (3, 3))))
    assert not sdot_rows.is_staged(_product(conv((1, 9, 9, 4), 1, (3, 3))))
    assert not sdot_rows.is_staged(_product(conv((1, 9, 9, 17), 1, (3, 3))))


def test_27_bytes_of_three_channels_take_seven_steps():
    assert sdot_rows.k_order(_product(conv((1, 9, 9, 3), 1, (3, 3)))).size == 28


def test_segments_follow_each_other():
    product = _product(conv((1, 9, 9, 4), 1, (3, 3)))
    chunks = [chunk for segment in sdot_rows.chunks_of(product) for chunk in segment]
    assert [(c.offset, c.size, c.step) for c in chunks] == [
        (0, 8, 0),
        (8, 4, 2),
        (36, 8, 3),
        (44, 4, 5),
        (72, 8, 6),
        (80, 4, 8),
    ]


def test_weights_follow_the_order():
    product = _product(linear((1,), 17, 2))
    weights = np.arange(1, 35, dtype=np.int8).reshape(1, 2, 17)
    packed = sdot_rows.packed_weights(product, weights)
    np.testing.assert_array_equal(packed[0, 0], [*range(1, 17), 0, 0, 0, 17])
