# SPDX-License-Identifier: Apache-2.0
import numpy as np
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm_ffi import structural_walk

from relay_passes.canonicalize.merge_constants import merge_constants
from tests.relay_passes.graphs import Net, inputs_of, run, tensor


def _sum_of(*values: np.ndarray) -> tvm.IRModule:
    """x + (each value read as float32)."""
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        y: Expr = x
        for i, value in enumerate(values):
            y = net.emit(f"add{i}", op.add(y, net.emit(f"cast{i}", op.astype(relax.const(value), "float32"))))
        return y

    return net.module([x], body)


def _constants(mod: tvm.IRModule) -> int:
    """How many constants a module holds; one that several calls read counts once."""
    found: set[int] = set()
    for _, func in mod.functions_items():
        structural_walk(func, [(tvm.ir.GenericConst, lambda constant: found.add(constant.id_))])
    return len(found)


def test_equal_constants_become_one() -> None:
    value = np.arange(7, dtype="float32")
    mod = _sum_of(value, value.copy(), value.copy())
    after = merge_constants(mod)
    assert (_constants(mod), _constants(after)) == (3, 1)
    tvm.ir.assert_structural_equal(after, mod)


def test_across_functions_too() -> None:
    value = np.arange(7, dtype="float32")
    other = _sum_of(value.copy())["main"].with_attr("global_symbol", "other")
    mod = tvm.IRModule({"main": _sum_of(value)["main"], "other": other})
    assert _constants(merge_constants(mod)) == 1


def test_what_differs_in_a_bit_a_dtype_or_a_shape_is_kept() -> None:
    zero = np.zeros(7, "float32")
    different = (zero, -zero, zero.astype("int32"), zero.reshape(1, 7)[:, :1].copy(), zero[:1])
    mod = _sum_of(*different)
    after = merge_constants(mod)
    assert _constants(after) == len(different)
    x = inputs_of(mod)
    np.testing.assert_array_equal(run(after, *x), run(mod, *x))
