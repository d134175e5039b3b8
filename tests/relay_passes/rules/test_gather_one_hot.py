# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.rules.gather_one_hot import RULE
from tests.relay_passes.graphs import Net, operators, run, tensor
from tests.relay_passes.rules.rewrites import graph, rejection, rewritten

ROWS, COLUMNS = 7, 9
TABLE = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
PLACES = np.arange(ROWS)


def _product(
    places: np.ndarray = PLACES,
    table: np.ndarray = TABLE,
    shape: tuple[int, ...] = (2, 31, 1),
    dtype: str = "int32",
    swapped: bool = False,
) -> tvm.IRModule:
    def build(net: Net, index: Expr) -> Expr:
        operands = (index, relax.const(places.astype(dtype)))
        equal = net.emit("equal", op.equal(*(operands[::-1] if swapped else operands)))
        one_hot = net.emit("one-hot", op.astype(equal, "float32"))
        return net.emit("embedding", op.matmul(one_hot, relax.const(table)))

    return graph(build, tensor("x", *shape, dtype=dtype))


CASES: dict[str, Callable[[], tvm.IRModule]] = {
    "int32": _product,
    "int64, as a matrix": lambda: _product(shape=(31, 1), dtype="int64"),
    "constant first": lambda: _product(swapped=True),
    "places of the indices' rank": lambda: _product(PLACES.reshape(1, 1, ROWS)),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_the_product_and_zeros_beyond_the_table(name: str) -> None:
    before = CASES[name]()
    after = rewritten(before, RULE)
    assert operators(after["main"]) == ["reshape", "add", "take"]
    (index,) = before["main"].params
    dtype = str(index.ty.dtype)
    limits = np.iinfo(dtype)
    values = np.array([*range(-2, ROWS + 2), limits.min, limits.max], dtype)
    x = np.resize(values, [int(dim) for dim in index.ty.shape])
    np.testing.assert_array_equal(run(after, x), run(before, x))


REJECTIONS: dict[str, Callable[[], tvm.IRModule]] = {
    "indices are not compared with all rows in order (expected 7, found 7)": lambda: _product(PLACES[::-1]),
    "indices are broadcast (expected (2, 7, 1), found (2, 7, 7))": lambda: _product(shape=(2, 7, 7)),
    "indices are no integers (expected int32, int64, found float32)": lambda: _product(dtype="float32"),
    "the table has values that are not finite": lambda: _product(table=np.where(TABLE > 1, np.inf, TABLE)),
    "table or one-hot tensor is no matrix (expected 2, found 3)": lambda: _product(
        table=np.stack([TABLE, TABLE])
    ),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_other_products_stay_and_say_why(reason: str) -> None:
    assert str(rejection(REJECTIONS[reason](), RULE)).partition(": ")[2] == reason
