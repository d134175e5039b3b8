# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir import Call
from tvm.relax import op

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.new_tensors import NEW_TENSOR, allocate_directly
from tests.relay_passes.graphs import Net

SIZE = tirx.Var("n", "int64")


@pytest.mark.parametrize(
    ("shape", "dtype", "given"),
    [
        ((2, 3), "float32", [24, 0x0001_20_02, 2, 3]),
        ((), "int64", [8, 0x0001_40_00]),
        ((0, 5), "bool", [0, 0x0001_08_06, 0, 5]),
        ((1 << 14,), "float32", [1 << 16, 0x0001_20_02, 1 << 14]),
        ((1 << 14, 2), "float32", None),
        ((SIZE,), "float32", None),
        ((2,), "int4", None),
    ],
)
def test_small_tensors_of_known_sizes_are_made_directly(
    shape: tuple[int, ...], dtype: str, given: list[int] | None
) -> None:
    net = Net()
    sizes = [relax.Var("size", relax.ShapeType([SIZE]))] if SIZE in shape else []
    made = op.builtin.alloc_tensor(relax.ShapeExpr(shape), dtype, 0)
    mod = net.module(sizes, lambda: net.emit("y", made))
    (new,) = [b.value for b in bindings_of(allocate_directly(mod)["main"]) if isinstance(b.value, Call)]
    tvm.ir.assert_structural_equal(new.ty, relax.TensorType(shape, dtype))
    if given is None:
        assert new.op.name == "relax.builtin.alloc_tensor"
    else:
        assert new.op.global_symbol == NEW_TENSOR
        assert [int(arg) for arg in new.args] == given
