# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Call, Expr, Op, TupleGetItem
from tvm.relax import op

from relay_passes import canonicalize, to_half_precision, unnamed_calls
from relay_passes.ir.sources import bindings_of
from relay_passes.ir.verify import verify
from relay_passes.precision.half_precision import FOLLOWING, Half
from tests.relay_passes.graphs import GRAPHS, Net, inputs_of, run, tensor

# What follows a convolution in the tests below is on this shape.
SHAPE = (1, 7, 4, 4)


def calls(mod: tvm.IRModule) -> list[tuple[str, list[str]]]:
    """Operators but casts, each with the element types of its tensors and then of its result."""
    found = []
    for binding in bindings_of(mod["main"]):
        call = binding.value
        if isinstance(call, Call) and call.op != Op.get("relax.astype"):
            tensors = [t for arg in (*call.args, call) for t in getattr(arg.ty, "fields", [arg.ty])]
            name = str(call.op.name).removeprefix("relax.")
            found.append((name, [str(t.dtype) for t in tensors if isinstance(t, relax.TensorType)]))
    return found


def after_conv(body: Callable[[Net, Expr], Expr]) -> tvm.IRModule:
    """A convolution with a result of SHAPE, and `body` on it."""
    net, x = Net(), tensor("x", 1, 7, 6, 6)
    return net.module([x], lambda: body(net, net.emit("conv", op.nn.conv2d(x, net.const(7, 7, 3, 3)))))


@pytest.mark.each_once
@pytest.mark.parametrize(("dtype", "fraction"), [("float16", 10), ("bfloat16", 7)])
@pytest.mark.parametrize("name", GRAPHS)
def test_result_is_near_and_every_call_named(name: str, dtype: Half, fraction: int) -> None:
    mod = canonicalize(GRAPHS[name]())
    half = to_half_precision(mod, dtype)
    verify(half, after="to_half_precision")
    assert unnamed_calls(half) == []
    exact, found = run(mod, *inputs_of(mod)), run(half, *inputs_of(mod))
    assert found.dtype == np.float32
    # At most four layers, each with three roundings to half a step: of data, weights and result.
    np.testing.assert_allclose(
        found, exact, rtol=0, atol=4 * 3 * 2.0 ** -(fraction + 1) * np.abs(exact).max()
    )
    assert not np.array_equal(found, exact)


def test_convolutions_take_halves_and_add_up_in_full() -> None:
    half = to_half_precision(after_conv(lambda net, y: net.emit("relu", op.nn.relu(y))), "float16")
    assert calls(half) == [
        ("nn.conv2d", ["float16", "float16", "float32"]),
        ("nn.relu", ["float16", "float16"]),
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_two_computed_tensors_stay_full(dtype: Half) -> None:
    net, x = Net(), tensor("x", 5, 5)

    def body() -> Expr:
        weight = net.emit("weight", op.permute_dims(net.const(5, 5)))
        y = net.emit("linear", op.matmul(x, weight))
        return net.emit("scores", op.matmul(y, x))

    products = [
        types for name, types in calls(to_half_precision(net.module([x], body), dtype)) if name == "matmul"
    ]
    assert products == [[dtype, dtype, "float32"], ["float32"] * 3]


@pytest.mark.parametrize(
    ("dtype", "strides", "kept"),
    [("float16", (2, 2), False), ("float16", (3, 3), True), ("bfloat16", (2, 2), True)],
)
def test_transposed_convolutions_take_16_bits_where_they_have_a_kernel(
    dtype: Half, strides: tuple[int, int], kept: bool
) -> None:
    """With strides of 3, some outputs of a kernel of 2 x 2 meet no input."""
    half = to_half_precision(
        after_conv(
            lambda net, y: net.emit("up", op.nn.conv2d_transpose(y, net.const(7, 5, 2, 2), strides=strides))
        ),
        dtype,
    )
    assert calls(half) == [
        ("nn.conv2d", [dtype, dtype, "float32"]),
        ("nn.conv2d_transpose", ["float32"] * 3 if kept else [dtype, dtype, "float32"]),
    ]


def test_bfloat16_is_for_products_alone() -> None:
    def body(net: Net, y: Expr) -> Expr:
        relu = net.emit("relu", op.nn.relu(y))
        return net.emit("again", op.nn.conv2d(relu, net.const(7, 7, 3, 3)))

    assert calls(to_half_precision(after_conv(body), "bfloat16")) == [
        ("nn.conv2d", ["bfloat16", "bfloat16", "float32"]),
        ("nn.relu", ["float32", "float32"]),
        ("nn.conv2d", ["bfloat16", "bfloat16", "float32"]),
    ]


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
def test_operands_are_rounded_to_nearest_even(dtype: Half, step: float) -> None:
    # Ties, of data and of weights: to 1, to 1 + 2 steps, and what is beyond a tie up.
    values = np.array([[1 + step / 2, 1 + 1.5 * step, 1 + 0.501 * step]], "f")
    rounded = np.array([[1, 1 + 2 * step, 1 + step]])
    net, x = Net(), tensor("x", 1, 3)
    mod = net.module([x], lambda: net.emit("fc", op.matmul(x, relax.const(np.eye(3, dtype="f")))))
    np.testing.assert_array_equal(run(to_half_precision(mod, dtype), values), rounded)
    net, x = Net(), tensor("x", 1, 1)
    mod = net.module([x], lambda: net.emit("fc", op.matmul(x, relax.const(values))))
    np.testing.assert_array_equal(run(to_half_precision(mod, dtype), np.ones((1, 1), "f")), rounded)


def test_long_sums_lose_nothing() -> None:
    net, x = Net(), tensor("x", 1, 4097)
    mod = net.module([x], lambda: net.emit("fc", op.matmul(x, relax.const(np.ones((4097, 1), "f")))))
    # Summed up in binary16, ones stop at 2048. The output is the sum itself, 4097, which binary16 does not have.
    assert run(to_half_precision(mod, "float16"), np.ones((1, 4097), "f")).item() == 4097


FULL = {
    "softmax": lambda y: op.nn.softmax(y),
    "mean": lambda y: op.mean(y, [2, 3]),
    "sum": lambda y: op.sum(y, [1]),
    "exp": op.exp,
    "power": lambda y: op.power(y, relax.const(2.0, "float32")),
    "square": op.square,
    "square as a product": lambda y: op.multiply(y, y),
    "avg_pool": lambda y: op.nn.avg_pool2d(y, (3, 3)),
    "rms_norm": lambda y: op.nn.rms_norm(y, relax.const(np.ones(4, "f")), axes=[-1]),
}


@pytest.mark.parametrize("name", FULL)
def test_sums_and_what_overflows_early_stay_full(name: str) -> None:
    half = to_half_precision(after_conv(lambda net, y: net.emit("f", FULL[name](y))), "float16")
    assert set(calls(half)[1][1]) == {"float32"}
    # What comes out of the convolution is not rounded on its way there.
    assert not any("float16" in dtypes for _, dtypes in calls(half)[1:])


FOLLOWERS = {
    "relu6, whose bounds are no tensors": lambda y: op.clip(y, 0.0, 6.0),
    "residual": lambda y: op.add(y, y),
    "concat, whose operands are a tuple": lambda y: op.concat([y, y], 1),
    "slice": lambda y: op.strided_slice(y, [1], [0], [3]),
    "where, one of whose operands is no float": lambda y: op.where(relax.const(np.ones(SHAPE, "bool")), y, y),
    "resize": lambda y: op.image.resize2d(y, (8, 8), layout="NCHW"),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_elementwise_and_moves_follow(name: str) -> None:
    mod = after_conv(lambda net, y: net.emit("f", FOLLOWERS[name](y)))
    half = to_half_precision(mod, "float16")
    assert calls(half)[1][1][-1] == "float16"
    assert "float32" not in calls(half)[1][1]
    exact, found = run(mod, *inputs_of(mod)), run(half, *inputs_of(mod))
    # Data, weights, the convolution's result, and the operator's own.
    np.testing.assert_allclose(found, exact, rtol=0, atol=4 * 2.0**-11 * np.abs(exact).max())


def test_every_follower_is_an_operator() -> None:
    for name in FOLLOWING:
        assert Op.get(name).name == name


def test_items_of_a_split_follow() -> None:
    def body(net: Net, y: Expr) -> Expr:
        parts = net.emit("split", op.split(y, [3], axis=1))
        items = [net.bb.emit(TupleGetItem(parts, i)) for i in range(2)]
        return net.emit("join", op.concat([net.emit("relu", op.nn.relu(items[1])), items[0]], 1))

    half = to_half_precision(after_conv(body), "float16")
    assert [dtypes[-1] for _, dtypes in calls(half)] == ["float32", "float16", "float16", "float16"]


def test_a_split_is_widened_for_what_stays_full() -> None:
    def body(net: Net, y: Expr) -> Expr:
        parts = net.emit("split", op.split(y, [3], axis=1))
        return net.emit("softmax", op.nn.softmax(net.bb.emit(TupleGetItem(parts, 1))))

    half = to_half_precision(after_conv(body), "float16")
    assert calls(half)[-1] == ("nn.softmax", ["float32", "float32"])
    verify(half, after="to_half_precision")


def test_what_no_convolution_feeds_stays_full() -> None:
    net, x = Net(), tensor("x", 7)
    mod = canonicalize(
        net.module([x], lambda: net.emit("tanh", op.tanh(net.emit("add", op.add(x, net.const(7))))))
    )
    tvm.ir.assert_structural_equal(to_half_precision(mod, "float16"), mod)


def test_integers_and_several_outputs_keep_their_types() -> None:
    net, x, index = Net(), tensor("x", 1, 9), tensor("i", 3, dtype="int64")

    def body() -> Expr:
        y = net.emit("fc", op.matmul(x, net.const(9, 31)))
        return relax.Tuple(
            [net.emit("take", op.take(y, index, axis=1)), net.emit("next", op.add(index, index))]
        )

    mod = net.module([x, index], body)
    half = to_half_precision(mod, "float16")
    tvm.ir.assert_structural_equal(half["main"].ret_ty, mod["main"].ret_ty)
    assert dict(calls(half))["take"] == ["float16", "int64", "float16"]


def test_a_mask_stays_finite() -> None:
    mask = np.array([0, -3.4e38, -np.inf, 7], np.float32)
    half = to_half_precision(
        after_conv(lambda net, y: net.emit("mask", op.add(y, relax.const(mask)))), "float16"
    )
    add = next(
        b.value for b in bindings_of(half["main"]) if getattr(b.value, "op", None) == Op.get("relax.add")
    )
    np.testing.assert_array_equal(add.args[1].value.numpy(), np.array([0, -65504, -np.inf, 7], np.float16))


def test_a_value_is_cast_once_for_all_its_consumers() -> None:
    net, x = Net(), tensor("x", 1, 9)

    def body() -> Expr:
        parts = [net.emit(name, op.matmul(x, net.const(9, 7))) for name in ("q", "k", "v")]
        return net.emit("join", op.concat(parts, 1))

    casts = [
        b
        for b in bindings_of(to_half_precision(net.module([x], body), "float16")["main"])
        if getattr(b.value, "op", None) == Op.get("relax.astype")
    ]
    # x, the three products, and the output.
    assert len(casts) == 1 + 3 + 1
