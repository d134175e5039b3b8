# SPDX-License-Identifier: Apache-2.0
import numpy as np
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op, transform

from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.ir.sources import bindings_of, unnamed_calls
from tests.relay_passes.graphs import Net, inputs_of, operators, residual_block, run, tensor


def _scale_and_zero_point() -> tuple[Expr, Expr]:
    return relax.const(np.float32(0.5)), relax.const(np.int8(3))


def test_a_chain_folds_to_its_value() -> None:
    net, x = Net(), tensor("x", 1, 8, 1, 1)
    stored = net.const(8)

    def body() -> Expr:
        y = net.emit("reshape", op.reshape(net.emit("exp", op.exp(stored)), (1, 8, 1, 1)))
        return net.emit("add", op.add(x, y))

    (add,) = [
        b.value for b in bindings_of(fold_constants(net.module([x], body))["main"]) if hasattr(b.value, "op")
    ]
    folded = add.args[1].value.numpy()
    # The host's exp is within 2 units of the last place of numpy's.
    np.testing.assert_array_max_ulp(folded, np.exp(stored.value.numpy()).reshape(1, 8, 1, 1), maxulp=2)


def test_the_result_is_that_of_upstreams_pass() -> None:
    mod = residual_block()
    upstream = transform.DeadCodeElimination()(transform.FoldConstant()(mod))
    tvm.ir.assert_structural_equal(fold_constants(mod), upstream)


def test_calls_of_generated_functions_fold_too() -> None:
    net, x = Net(), tensor("x", 7)
    bound = net.const(7)

    def body() -> Expr:
        twice = net.emit("clip", net.bb.call_te(tvm.topi.add, bound, bound))
        return net.emit("sub", op.subtract(x, twice))

    folded = fold_constants(net.module([x], body))
    assert operators(folded["main"]) == ["subtract"]
    assert unnamed_calls(folded) == []


def test_static_shapes_are_constants() -> None:
    net, x, i = Net(), tensor("x", 7, 9), tensor("i", 31, dtype="int64")

    def body() -> Expr:
        shape = net.emit("shape", op.shape_to_tensor(net.emit("shape", op.shape_of(x))))
        size = net.emit("size", op.take(shape, relax.const(1, "int64"), 0))
        return net.emit("add", op.add(i, size))

    folded = fold_constants(net.module([x, i], body))
    (add,) = [b.value for b in bindings_of(folded["main"]) if hasattr(b.value, "op")]
    assert int(add.args[1].value.numpy()) == 9


def test_shapes_of_run_time_are_left() -> None:
    rows = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((rows, 9), "float32"))
    net = Net()
    mod = net.module([x], lambda: net.emit("shape", op.shape_to_tensor(net.emit("shape", op.shape_of(x)))))
    tvm.ir.assert_structural_equal(fold_constants(mod), mod)


def test_quantised_constants_stay_integers() -> None:
    net, x = Net(), tensor("x", 7)
    weight = net.const(7)

    def body() -> Expr:
        stored = net.emit("quantize", op.quantize(weight, *_scale_and_zero_point(), axis=0, out_dtype="int8"))
        return net.emit(
            "add", op.add(x, net.emit("dequantize", op.dequantize(stored, *_scale_and_zero_point(), axis=0)))
        )

    mod = net.module([x], body)
    folded = fold_constants(mod)
    assert operators(folded["main"]) == ["dequantize", "add"]
    (dequantize, *_) = [b.value for b in bindings_of(folded["main"])]
    np.testing.assert_array_equal(dequantize.args[0].value.numpy(), np.rint(weight.value.numpy() / 0.5) + 3)
    np.testing.assert_array_equal(run(folded, *inputs_of(mod)), run(mod, *inputs_of(mod)))
    assert operators(fold_constants(mod, keep=())["main"]) == ["add"]


def test_activations_and_outputs_are_left_as_they_are() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        q = net.emit("q", op.quantize(x, *_scale_and_zero_point(), axis=0, out_dtype="int8"))
        return net.emit("dq", op.dequantize(q, *_scale_and_zero_point(), axis=0))

    mod = net.module([x], body)
    tvm.ir.assert_structural_equal(fold_constants(mod), mod)


def test_extrema_of_infinities_fold_to_infinities_and_their_places_stay_calls() -> None:
    net, x = Net(), tensor("x", 1)
    row = relax.const(np.full((1, 9), -np.inf, np.float32))

    def body() -> Expr:
        most = net.emit("max", op.max(row, 1))
        place = net.emit("astype", op.astype(net.emit("argmax", op.argmax(row, 1)), "float32"))
        return net.emit("sub", op.subtract(net.emit("add", op.add(x, most)), place))

    folded = fold_constants(net.module([x], body))["main"]
    assert sorted(operators(folded)) == ["add", "argmax", "astype", "subtract"]
    add = next(b.value for b in bindings_of(folded) if b.value.op.name == "relax.add")
    assert add.args[1].value.numpy() == -np.inf
