# SPDX-License-Identifier: Apache-2.0
"""Concatenations of many tensors become some of few."""

import numpy as np
import pytest
from tvm import relax
from tvm.ir import IRModule

from relay_passes.fusion.split_concat import WIDEST, split_concat
from relay_passes.ir.sources import bindings_of, name_bindings, unnamed_calls


def joined(count: int) -> IRModule:
    params = [relax.Var(f"x{k}", relax.TensorType((1, 2), "float32")) for k in range(count)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            value = builder.emit(relax.op.concat(params, 1))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    mod = builder.get()
    mod["main"] = name_bindings(mod["main"], {value: "join"})
    return mod


def operands(mod: IRModule) -> list[int]:
    calls = (binding.value for binding in bindings_of(mod["main"]))
    return [len(call.args[0].fields) for call in calls if isinstance(call, relax.Call)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (WIDEST + 1, [WIDEST, 2]),
        (2 * WIDEST + 5, [WIDEST, WIDEST, 5, 3]),
        (WIDEST**2, [WIDEST] * (WIDEST + 1)),
    ],
)
def test_many_operands(count: int, expected: list[int]):
    mod = split_concat(joined(count))
    assert operands(mod) == expected
    assert unnamed_calls(mod) == []
    assert [int(size) for size in mod["main"].ret_ty.shape.values] == [1, 2 * count]


def test_order_is_kept():
    given = [np.full((1, 2), k, np.float32) for k in range(2 * WIDEST + 1)]
    main = split_concat(joined(len(given)))["main"]
    values = dict(zip(main.params, given, strict=True))
    for binding in bindings_of(main):
        if isinstance(binding.value, relax.Call):
            values[binding.var] = np.concatenate([values[x] for x in binding.value.args[0].fields], 1)
        else:
            values[binding.var] = values[binding.value]
    np.testing.assert_array_equal(values[main.body.body], np.concatenate(given, 1))


def test_few_operands_stay():
    mod = joined(WIDEST)
    assert split_concat(mod).same_as(mod)
