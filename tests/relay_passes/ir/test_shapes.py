# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm import relax
from tvm.relax import op
from tvm.tirx import Var

from relay_passes.ir.shapes import axes_of, shape_of, static_shape
from tests.relay_passes.graphs import tensor


def test_a_shape_of_numbers() -> None:
    assert static_shape(tensor("x", 2, 7, 9)) == shape_of(tensor("x", 2, 7, 9)) == (2, 7, 9)
    assert static_shape(tensor("x")) == ()


@pytest.mark.parametrize(
    "ty",
    [
        relax.TensorType([Var("n", "int64"), 7], "float32"),
        relax.TensorType(ndim=2, dtype="float32"),
        relax.TupleType([relax.TensorType([7], "float32")]),
    ],
    ids=["symbolic", "rank alone", "a tuple"],
)
def test_none_where_a_number_is_missing(ty: relax.Type) -> None:
    assert static_shape(relax.Var("x", ty)) is None


@pytest.mark.parametrize(
    ("axes", "expected"), [([0, -1, 1], [0, 2, 1]), (None, [2, 1, 0]), ([2, 0, 1], [2, 0, 1])]
)
def test_axes_count_from_zero(axes: list[int] | None, expected: list[int]) -> None:
    mod = relax.BlockBuilder().normalize(op.permute_dims(tensor("x", 2, 7, 9), axes))
    assert axes_of(mod) == expected
