# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.common import copies
from schedules.kernels.common.cost_model import Cost
from schedules.kernels.gemm import packed_rows_mmla
from schedules.kernels.gemm.product import NOTHING, reordered
from schedules.kernels.gemm.product_s8 import IntegerProduct, product_of
from schedules.tir.emit import i64, kernel_function
from tests.schedules.products import MIXED, SIGNED, Case, conv, linear
from tests.schedules.programs import Array, run_on_host

# (way, case): lengths of segments around eight and sixteen, rows that are neighbours and rows that are not.
CASES: list[tuple[str, Case]] = [
    ("direct", linear((5,), 8, 1)),
    ("direct", linear((5,), 9, 1)),
    ("direct", linear((5,), 15, 1)),
    ("direct", linear((4,), 16, 1)),
    ("direct", linear((4,), 17, 1)),
    ("direct", linear((4,), 31, 1)),
    ("direct", linear((2,), 65, 1, quant=MIXED)),
    ("direct", conv((1, 5, 4, 11), 1, (3, 1))),
    ("gather", linear((4,), 5, 1)),
    ("gather", conv((1, 9, 9, 3), 1, (3, 3), strides=(2, 2))),
    ("gather", conv((1, 5, 7, 1), 1, (3, 2), quant=MIXED)),
    ("gather", conv((1, 9, 10, 1), 1, (7, 7))),
    ("staged", linear((5,), 5, 1)),
    ("staged", conv((1, 5, 7, 1), 1, (3, 3))),
    ("staged", conv((1, 5, 7, 6), 1, (2, 3), dilation=(1, 2), quant=MIXED)),
]


def _product(case: Case) -> IntegerProduct:
    product = product_of(case.workload, "any")
    assert isinstance(product, IntegerProduct)
    return product


def _rows(product: IntegerProduct, data: Array) -> Array:
    """The implicit matrix, int8."""
    signed = (data.astype(int) - (128 if product.flipped else 0)).astype(np.int8).ravel()
    _, height, width = product.rows.shape
    found = []
    for p in range(product.rows.count):
        place = (p // width // height, p // width % height, p % width)
        start = sum(i * stride for i, stride in zip(place, product.rows.strides, strict=True))
        found.append(np.concatenate([signed[start + at :][:length] for at, length in product.rows.segments]))
    return np.array(found)


def _packed(case: Case, product: IntegerProduct, steps: int) -> Array:
    """The panel of all rows, as [row][8 * steps]."""
    pairs = -(-product.rows.count // 2)
    shape = (steps, pairs, 2, 8)
    (x,) = case.inputs
    with kernel_function(
        "pack", [(x.shape, str(x.dtype)), ((1, 1, 1, 16), "int8"), (shape, "int8")]
    ) as function:
        data, _, panel = function.buffers
        if packed_rows_mmla.reads_past_the_data(product):
            data = copies.padded(data, (1, 1, 1, x.size), ((0, 0),) * 4, 0)
        starts = product.rows.offsets(i64(0), product.rows.count, product.rows.count)
        packed_rows_mmla.pack_rows(product, data, panel, starts)
    actual = run_on_host(function.prim_func, [x, np.zeros((1, 1, 1, 16), np.int8)], shape, "int8")
    return actual.transpose(1, 2, 0, 3).reshape(2 * pairs, -1)[: product.rows.count]


@pytest.mark.parametrize(("way", "case"), CASES, ids=lambda c: c if isinstance(c, str) else None)
def test_the_panel_holds_what_the_order_says(way: str, case: Case):
    product = _product(case)
    order = packed_rows_mmla.k_order(product)
    assert packed_rows_mmla.way_of(product) == way
    assert order.size == 8 * packed_rows_mmla.steps_of(product)
    # Each k is somewhere, once.
    own = order != NOTHING
    assert sorted(order[own]) == list(range(product.rows.depth))
    packed = _packed(case, product, order.size // 8)
    np.testing.assert_array_equal(packed[:, own], _rows(product, case.inputs[0])[:, order[own]])


def test_three_channels_take_four_steps_for_27_bytes():
    product = _product(conv((1, 225, 225, 3), 32, (3, 3), strides=(2, 2), quant=SIGNED))
    assert packed_rows_mmla.steps_of(product) == 4


def test_weights_follow_the_order():
    product = _product(conv((1, 9, 9, 3), 2, (3, 3), strides=(2, 2)))
    weights = np.arange(1, 55, dtype=np.int8).reshape(1, 2, 27)
    order = packed_rows_mmla.k_order(product)
    packed = reordered(weights, order)
    np.testing.assert_array_equal(packed[0, 1][order >= 0], 28 + order[order >= 0])
    assert not packed[:, :, order < 0].any()


def test_packing_costs_what_its_way_takes():
    def cost(channels: int, width: int) -> Cost:
        return packed_rows_mmla.cost(_product(conv((1, 9, width, channels), 1, (3, 3), strides=(2, 2))))

    # Three loads; three permutations of one vector and two for what is left of all; four stores.
    assert cost(3, 9) == Cost(3 + 5 + 4, 5 + 4)
    # Two vectors of eight bytes of each of three segments, loaded and stored for two rows.
    assert cost(3, 7) == Cost(24, 12)
    # Segments of three bytes copied in two parts, then sixteen bytes loaded, permuted and stored.
    assert cost(1, 7) == Cost(2 * 2 * 6 + 6, 2 * 6 + 4)
