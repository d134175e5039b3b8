# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, StringImm, TupleGetItem
from tvm.relax import op

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.plan_arena import plan_arena
from relay_passes.memory.pointer_calls import CHECK, STACK, call_by_pointers, takes_pointers
from relay_passes.memory.storage_offsets import accept_offsets
from tests.relay_passes.graphs import Net, tensor
from tests.relay_passes.memory.test_plan_arena import PLAN, branches


def planned(mod: tvm.IRModule) -> tvm.IRModule:
    with tvm.target.Target("llvm"):
        return accept_offsets(plan_arena(PLAN(mod)))


def kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}


def by_pointers(mod: tvm.IRModule) -> list[Call]:
    """Return the kernel calls of `main` with addresses."""
    called = call_by_pointers(mod, kernels(mod), ["main"])
    return [b.value for b in bindings_of(called["main"]) if isinstance(b.value, Call)]


def operators(calls: list[Call]) -> list[str]:
    names = ("name", "name_hint", "global_symbol")
    return [next(str(getattr(call.op, name)) for name in names if hasattr(call.op, name)) for call in calls]


def test_tensors_that_kernels_alone_see_become_offsets():
    mod = planned(branches())
    before = {b.var: b.value for b in bindings_of(mod["main"]) if isinstance(b.value, Call)}
    names = operators(list(before.values()))
    assert names.count("relax.memory.alloc_tensor") > 2
    assert "relax.reshape" in names
    calls = by_pointers(mod)
    names = operators(calls)
    assert names.count("relax.memory.alloc_storage") == names.count("relax.memory.alloc_tensor") == 1
    assert "relax.reshape" not in names
    assert names[0] == CHECK
    arena = next(call for call in calls if getattr(call.op, "name", "") == "relax.memory.alloc_storage")
    whole = next(call for call in calls if getattr(call.op, "name", "") == "relax.memory.alloc_tensor")
    assert int(whole.args[1]) == 0
    assert [int(size) for size in whole.ty.shape] == [int(arena.args[0].values[0])]
    # Each kernel gets the same buffers as before, as offsets in the arena.
    offsets = {
        var: int(call.args[1])
        for var, call in before.items()
        if operators([call]) == ["relax.memory.alloc_tensor"]
    }
    given = [call for call in calls if operators([call])[0] in kernels(mod)]
    asked = [call for call in before.values() if operators([call])[0] in kernels(mod)]
    assert len(given) == len(asked)
    for new, old in zip(given, asked, strict=True):
        assert len(new.args) == 2 * len(old.args)
        for arg, offset in zip(old.args, new.args[1::2], strict=True):
            assert arg not in offsets or int(offset) == offsets[arg]


@pytest.mark.parametrize(("width", "short", "on_stack"), [(6, 99, True), (6, 3, False), (4096, 99, False)])
def test_a_small_arena_of_a_short_function_is_on_the_stack(width: int, short: int, on_stack: bool):
    net, x = Net(), tensor("x", 1, width)
    mod = planned(
        net.module([x], lambda: net.emit("b", op.exp(op.matmul(op.exp(x), op.exp(op.permute_dims(x))))))
    )
    called = call_by_pointers(mod, kernels(mod), ["main"], short)
    calls = [b.value for b in bindings_of(called["main"]) if isinstance(b.value, Call)]
    stack = [call for call in calls if str(getattr(call.op, "global_symbol", "")) == STACK]
    assert len(stack) == on_stack
    assert ("relax.memory.alloc_storage" in operators(calls)) != on_stack
    arguments = [arg for call in calls for arg in call.args if isinstance(arg, StringImm)]
    assert bool([arg for arg in arguments if arg.value == STACK]) == on_stack


def test_views_of_arguments_and_constants_are_their_addresses():
    net, x = Net(), tensor("x", 4, 6)
    constant = relax.const([1.0] * 24, "float32")

    def body() -> relax.Expr:
        view = net.emit("view", op.reshape(x, (24,)))
        return net.emit("sum", op.add(view, constant))

    mod = planned(net.module([x], body))
    *_, call = by_pointers(mod)
    first, second = call.args[0], call.args[2]
    assert str(first.name) == "x"
    assert isinstance(second, GenericConst)
    assert [int(offset) for offset in call.args[1::2]] == [0, 0, 0]


def test_tensors_of_a_tuple_are_offsets():
    """Both results of a kernel, which later passes of TVM also take out of the tuple."""
    net, x = Net(), tensor("x", 4, 6)

    def body() -> relax.Expr:
        parts = net.emit("parts", op.split(op.exp(x), 2, axis=1))
        first, second = (net.emit(name, op.exp(parts[k])) for k, name in enumerate("ab"))
        return net.emit("c", op.matmul(op.permute_dims(first), second))

    mod = planned(net.module([x], body))
    names = operators(by_pointers(mod))
    assert names.count("relax.memory.alloc_tensor") == 1
    called = call_by_pointers(mod, kernels(mod), ["main"])
    assert not [b for b in bindings_of(called["main"]) if isinstance(b.value, relax.Tuple | TupleGetItem)]


def test_what_others_see_stays_a_tensor():
    shape, nothing = relax.ShapeExpr([6]), relax.TupleType([])
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6,), "float32"))
    buffers = [tirx.decl_buffer((6,), "float32", name, layout=None) for name in "ab"]
    kernel = builder.add_func(tirx.PrimFunc(buffers, tirx.Evaluate(0)), "kernel")
    with builder.function("main", [x], pure=False):
        arena = builder.emit(op.memory.alloc_storage(relax.ShapeExpr([128]), 0, "global", "uint8"))
        made = [builder.emit(op.memory.alloc_tensor(arena, 64 * k, shape, "float32")) for k in range(2)]
        builder.emit(Call(kernel, [x, made[0]], ret_ty=nothing))
        builder.emit(Call(kernel, [made[0], made[1]], ret_ty=nothing))
        view = builder.emit(op.reshape(made[0], (2, 3)))
        builder.emit(Call(relax.ExternFunc("look"), [view], ret_ty=nothing))
        builder.emit_func_output(x)
    *made_here, first, second, viewed, look = by_pointers(builder.get())
    assert [int(offset) for call in (first, second) for offset in call.args[1::2]] == [0, 0, 0, 64]
    assert operators([viewed]) == ["relax.reshape"]
    assert (
        operators(made_here).count("relax.memory.alloc_tensor") == 2
    )  # the arena, and the tensor with another use
    assert look.args[0].name == view.name


@pytest.mark.parametrize(("shape", "takes"), [((4, 6), True), ((tirx.Var("n", "int64"), 6), False)])
def test_sizes_that_are_known_at_run_time_are_told_by_tensors(shape: tuple[object, ...], takes: bool):
    buffer = tirx.decl_buffer(shape, "float32", "x", layout=None)
    assert takes_pointers(tirx.PrimFunc([buffer], tirx.Evaluate(0))) == takes
