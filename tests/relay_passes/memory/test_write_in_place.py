# SPDX-License-Identifier: Apache-2.0
"""A kernel that adds 1 to an operand in place, in a function whose parameters are read in other ways."""

import numpy as np
import pytest
import tvm
from tvm import IRModule, relax, tirx
from tvm.ir import Call, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.write_in_place import CHANGED, copying, write_in_place
from schedules.tir.emit import IN_PLACE, i64, kernel_function

SHAPE = (4,)
TENSOR = relax.TensorType(SHAPE, "float32")


def increment() -> tirx.PrimFunc:
    """(x, y): y is x or a copy of it, and becomes x + 1."""
    with kernel_function("increment", [(SHAPE, "float32")] * 2) as function:
        _, y = function.buffers
        with T.serial(i64(0), i64(4)) as k:
            T.buffer_store(y, y[k] + tirx.FloatImm("float32", 1.0), [k])
    return function.prim_func.with_attr(IN_PLACE, [0, 1])


def module(*, reads_again: bool = False, of_result: bool = False) -> IRModule:
    """main(state) → the next state, and what `reads_again` or `of_result` add to it."""
    builder = relax.BlockBuilder()
    kernel = builder.add_func(increment(), "increment")
    state = Var("state", TENSOR)

    def called(value: Var) -> Var:
        result = builder.emit(R.builtin.alloc_tensor(relax.ShapeExpr(SHAPE), "float32", 0))
        builder.emit(Call(kernel, [value, result], ret_ty=relax.TupleType([])))
        return result

    with builder.function("main", [state], pure=False):
        result = called(state)
        result = called(result) if of_result else result
        builder.emit_func_output(builder.emit(relax.Tuple([result, state if reads_again else result])))
    return builder.get()


def run(mod: IRModule, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The state that was passed, after the call, and both results."""
    vm = relax.VirtualMachine(relax.build(mod, "llvm", relax_pipeline=None), tvm.cpu())
    given = tvm.runtime.tensor(value)
    found = vm["main"](given)
    return given.numpy(), found[0].numpy(), found[1].numpy()


@pytest.mark.parametrize(
    ("case", "changes"), [({}, True), ({"reads_again": True}, False), ({"of_result": True}, True)]
)
def test_values_and_whose_memory_they_are_in(case: dict[str, bool], changes: bool):
    mod, start = write_in_place(module(**case), IN_PLACE), np.arange(4, dtype=np.float32)
    assert (CHANGED in mod["main"].attrs) == changes
    after, first, second = run(mod, start)
    np.testing.assert_array_equal(first, start + (2 if "of_result" in case else 1))
    np.testing.assert_array_equal(second, start if "reads_again" in case else first)
    np.testing.assert_array_equal(after, start + 1 if changes else start)


def test_a_function_for_callers_who_keep_their_tensors():
    mod, start = write_in_place(module(), IN_PLACE), np.arange(4, dtype=np.float32)
    mod.update_func(mod.get_global_var("main"), copying(mod["main"]))
    assert CHANGED not in mod["main"].attrs
    after, first, _ = run(mod, start)
    np.testing.assert_array_equal(after, start)
    np.testing.assert_array_equal(first, start + 1)


def test_a_state_takes_no_further_memory():
    bound = [
        b.value for b in bindings_of(write_in_place(module(), IN_PLACE)["main"]) if isinstance(b.value, Call)
    ]
    assert [call.op.name_hint for call in bound if hasattr(call.op, "name_hint")] == ["increment"]
    assert not [call for call in bound if getattr(call.op, "name", "") == "relax.builtin.alloc_tensor"]


def test_without_such_kernels_the_module_is_the_same():
    mod = IRModule({"main": module()["main"]})
    assert write_in_place(mod, IN_PLACE).same_as(mod)
