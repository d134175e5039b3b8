# SPDX-License-Identifier: Apache-2.0
"""The ends of a `main` of any length."""

from tvm import IRModule, relax, tirx, topi

from relay_passes.ir.sources import bindings_of, global_callees
from relay_passes.lengths.bounded_main import COPY, at_length, copy_ends
from relay_passes.lengths.fix_length import takes_length


def doubled() -> IRModule:
    """Return a module that calls one kernel on x [1, n, 4] and w [4]."""
    builder = relax.BlockBuilder()
    shape = [1, tirx.Var("n", "int64"), 4]
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    w = relax.Var("w", relax.TensorType([4], "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit_output(builder.call_te(topi.add, x, w))
        builder.emit_func_output(y)
    return builder.get()


def test_open_arguments_and_results_are_copied():
    mod = copy_ends(doubled())
    called = [global_callees(binding.value)[0] for binding in bindings_of(mod["main"])]
    assert called == [COPY, "add", COPY]
    first, kernel, last = bindings_of(mod["main"])
    assert kernel.value.args[1].fields[0].same_as(first.var)
    assert kernel.value.args[1].fields[1].same_as(mod["main"].params[1])
    assert mod["main"].body.body.same_as(last.var)


def test_each_field_of_a_tuple_is_copied():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 4], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            values = [
                builder.emit(builder.call_te(topi.nn.relu, x)),
                builder.emit(builder.call_te(topi.exp, x)),
            ]
            both = builder.emit_output(relax.Tuple(values))
        builder.emit_func_output(both)
    main = copy_ends(builder.get())["main"]
    calls = [binding for binding in bindings_of(main) if isinstance(binding.value, relax.Call)]
    assert [global_callees(binding.value)[0] for binding in calls] == [COPY, "relu", "exp", COPY, COPY]
    (result,) = [b.value for b in bindings_of(main) if isinstance(b.value, relax.Tuple)] or [main.body.body]
    assert [field.same_as(call.var) for field, call in zip(result.fields, calls[-2:], strict=True)] == [
        True
    ] * 2


def test_a_size_that_is_not_the_length_alone_needs_it_as_an_argument():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 4], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(builder.call_te(topi.nn.pad, x, [1, 0], [2, 0]))
        builder.emit_func_output(y)
    mod = copy_ends(builder.get())
    *_, last = bindings_of(mod["main"])
    copied, length = last.value.args[1].fields
    assert str(copied.ty.shape.values[0]) == "n + T.int64(3)"
    assert str(length) == "n"
    (copy,) = global_callees(last.value)
    assert takes_length(mod[copy])


def test_every_function_gets_the_length():
    mod = at_length(copy_ends(doubled()), 7)
    assert "n" not in [str(dim) for param in mod["main"].params for dim in param.ty.shape.values]
    assert [int(dim) for dim in mod[COPY].params[0].ty.shape] == [1, 7, 4]
