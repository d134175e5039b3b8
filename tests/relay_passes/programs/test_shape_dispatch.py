# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Mapping

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Var
from tvm.relax.op import add, exp, multiply

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.plan_arena import share_arena
from relay_passes.programs.shape_dispatch import dispatch_by_shape

FACTORS = {2: 2, 5: 3}
"""Rows that a function is for → what it multiplies by, which tells the function that was called."""


def functions(factors: Mapping[int, int]) -> tvm.IRModule:
    """`rows_N` takes [N, 3] and [N], and returns exp of the one times a factor, and the other doubled."""
    builder = relax.BlockBuilder()
    for rows, factor in factors.items():
        x = Var("x", relax.TensorType((rows, 3), "float32"))
        y = Var("y", relax.TensorType((rows,), "float32"))
        with builder.function(f"rows_{rows}", [x, y], private=True):
            with builder.dataflow():
                powers = builder.emit(exp(x))
                scaled = builder.emit(multiply(powers, relax.const(factor, "float32")))
                both = builder.emit_output(relax.Tuple([scaled, builder.emit(add(y, y))]))
            builder.emit_func_output(both)
    return builder.get()


def chosen(refusal: str = "") -> tvm.IRModule:
    return dispatch_by_shape(functions(FACTORS), [f"rows_{rows}" for rows in FACTORS], refusal)


def run(mod: tvm.IRModule, *inputs: np.ndarray) -> list[np.ndarray]:
    vm = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    return [value.numpy() for value in vm["main"](*map(tvm.runtime.tensor, inputs))]


@pytest.mark.parametrize(("rows", "factor"), FACTORS.items())
def test_main_calls_what_the_arguments_fit(rows: int, factor: int):
    scaled, doubled = run(chosen(), np.zeros((rows, 3), np.float32), np.ones(rows, np.float32))
    np.testing.assert_array_equal(scaled, np.full((rows, 3), factor))
    np.testing.assert_array_equal(doubled, np.full(rows, 2))


@pytest.mark.parametrize(("rows", "others"), [(3, 3), (2, 5), (5, 2)])
def test_what_fits_none_is_refused_with_the_text(rows: int, others: int):
    inputs = np.zeros((rows, 3), np.float32), np.zeros(others, np.float32)
    with pytest.raises(ValueError, match=re.escape("it takes [2, 3] and [5, 3]")):
        run(chosen("it takes [2, 3] and [5, 3]"), *inputs)


def test_sizes_that_all_have_stay_in_mains_type():
    rows, columns = chosen()["main"].params[0].ty.shape.values
    assert isinstance(rows, Var)
    assert int(columns) == FACTORS[5]


def test_arenas_get_the_size_of_the_largest():
    mod = functions(FACTORS)
    for upstream in (
        relax.transform.LegalizeOps(),
        relax.transform.ToNonDataflow(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
    ):
        mod = upstream(mod)
    assert storages(mod) == {"rows_2": [24], "rows_5": [60]}
    assert storages(share_arena(mod, ["rows_2", "rows_5"])) == {"rows_2": [60], "rows_5": [60]}


def storages(mod: tvm.IRModule) -> dict[str, list[int]]:
    return {
        name: [
            int(binding.value.args[0].values[0])
            for binding in bindings_of(mod[name])
            if getattr(getattr(binding.value, "op", None), "name", "") == "relax.memory.alloc_storage"
        ]
        for name in ("rows_2", "rows_5")
    }
