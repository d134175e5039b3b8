# SPDX-License-Identifier: Apache-2.0
"""Whole nets: how many transposes stay and where they are put, that values stay, and integers integers."""

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from relay_passes import integerize, sources_of, to_nhwc
from relay_passes.ir.calls import name_of
from relay_passes.ir.sources import bindings_of
from relay_passes.ir.verify import verify
from schedules.numerics import qdq
from tests.relay_passes.graphs import GRAPHS, inputs_of, operators, run
from tests.relay_passes.layout.nets import SHAPE, Body, Cnn, net, pixels

Value = relax.Var


def relu(n: Cnn, x: Value) -> Value:
    return n.then(op.nn.relu(x))


def pure(n: Cnn, x: Value) -> Value:
    y = relu(n, n.then(op.add(n.conv(x, 8), n.const(1, 8, 1, 1))))
    y = n.then(op.clip(n.then(op.add(n.conv(y, 8, groups=8), n.const(8, 1, 1))), 0, 6))
    return n.conv(n.then(op.nn.max_pool2d(y, (2, 2), (2, 2))), 31, 1)


def residual(n: Cnn, x: Value) -> Value:
    y = relu(n, n.conv(x, 8))
    for _ in range(2):
        y = relu(n, n.then(op.add(n.conv(relu(n, n.conv(y, 8)), 8), y)))
    return y


def residual_of_the_input(n: Cnn, x: Value) -> Value:
    return n.then(op.add(n.conv(x, 8), x))


def concat(n: Cnn, x: Value) -> Value:
    return n.conv(n.then(op.concat([n.conv(x, 5), n.conv(x, 4, 1), x], axis=1)), 7)


def shuffle(n: Cnn, x: Value) -> Value:
    y = n.then(op.reshape(n.conv(x, 8), (1, 2, 4, 9, 7)))
    return n.conv(n.then(op.reshape(n.then(op.permute_dims(y, [0, 2, 1, 3, 4])), SHAPE)), 8, groups=2)


def pooled(n: Cnn, x: Value) -> Value:
    y = n.then(op.nn.adaptive_avg_pool2d(relu(n, n.conv(x, 8)), (1, 1)))
    return n.then(op.matmul(n.then(op.reshape(y, (1, 8))), n.const(8, 5)))


def gate_by_convolutions(n: Cnn, x: Value) -> Value:
    y = n.conv(x, 8)
    gate = n.conv(relu(n, n.conv(n.then(op.sum(y, [2, 3], keepdims=True)), 2, 1)), 8, 1)
    return n.conv(n.then(op.multiply(y, n.then(op.clip(gate, 0, 1)))), 5, 1)


def gate_by_linears(n: Cnn, x: Value) -> Value:
    y = n.conv(x, 8)
    gate = relu(n, n.then(op.matmul(n.then(op.sum(y, [2, 3])), n.const(8, 3))))
    gate = n.then(op.clip(n.then(op.matmul(gate, n.const(3, 8))), 0, 1))
    return n.conv(n.then(op.multiply(y, n.then(op.reshape(gate, (1, 8, 1, 1))))), 5, 1)


def flattened(n: Cnn, x: Value) -> Value:
    y = relu(n, n.then(op.reshape(n.conv(x, 8), (1, 504))))
    y = n.then(op.add(n.then(op.matmul(y, n.const(504, 9))), n.const(9)))
    return n.then(op.matmul(relu(n, y), n.const(9, 7)))


def flattened_norm(n: Cnn, x: Value) -> Value:
    y = n.then(op.reshape(n.conv(x, 8), (1, 504)))
    norm = n.then(op.nn.batch_norm(y, *(n.const(504) for _ in range(3)), n.const(504, low=1, high=1), axis=1))
    return n.then(op.matmul(n.item(norm, 0), n.const(504, 9)))


def unflattened(n: Cnn, x: Value) -> Value:
    y = n.then(op.matmul(n.then(op.reshape(x, (1, 504))), n.const(504, 504)))
    return n.conv(relu(n, n.then(op.reshape(n.then(op.add(y, n.const(504))), SHAPE))), 5)


def unet(n: Cnn, x: Value) -> Value:
    top = relu(n, n.conv(n.then(op.nn.pad(x, [0, 0, 0, 0, 0, 1, 0, 1])), 8))
    low = relu(n, n.conv(n.then(op.nn.max_pool2d(top, (2, 2), (2, 2))), 16))
    up = n.then(op.image.resize2d(low, (10, 8), layout="NCHW", method="nearest_neighbor"))
    return n.conv(n.then(op.concat([n.conv(up, 8), top], axis=1)), 3, 1)


def unet_transposed(n: Cnn, x: Value) -> Value:
    up = n.then(op.nn.conv2d_transpose(n.conv(x, 8), n.const(8, 6, 2, 2), strides=(2, 2)))
    return n.conv(up, 5)


def one_axis(n: Cnn, x: Value) -> Value:
    """Convolutions along one axis between transposes, as Conformers have them."""
    tokens = n.then(op.permute_dims(n.then(op.reshape(x, (1, 63, 8))), [0, 2, 1]))
    y = relu(n, n.then(op.nn.conv1d(tokens, n.const(8, 1, 5), padding=2, groups=8)))
    return n.then(op.permute_dims(n.then(op.nn.conv1d(y, n.const(4, 8, 1))), [0, 2, 1]))


def attention(n: Cnn, x: Value) -> Value:
    """Patches to tokens: what NCHW needs a transpose for is there already."""
    tokens = n.then(op.permute_dims(n.then(op.reshape(n.conv(x, 16), (1, 16, 63))), [0, 2, 1]))
    return n.then(op.matmul(tokens, n.const(16, 5)))


def next_block(n: Cnn, x: Value) -> Value:
    y = n.conv(x, 8)
    last = n.then(op.permute_dims(n.conv(y, 8, 7, groups=8), [0, 2, 3, 1]))
    last = n.then(op.matmul(relu(n, n.then(op.matmul(last, n.const(8, 32)))), n.const(32, 8)))
    return n.conv(n.then(op.add(y, n.then(op.permute_dims(last, [0, 3, 1, 2])))), 5, 1)


def split_and_joined(n: Cnn, x: Value) -> Value:
    parts = n.then(op.split(n.conv(x, 8), 2, axis=1))
    left, right = n.item(parts, 0), n.item(parts, 1)
    return n.conv(n.then(op.concat([n.then(op.add(n.conv(left, 4), right)), left], axis=1)), 5)


@dataclass(frozen=True)
class Net:
    """One net.

    Attributes:
        inside: Transposes that its own operators need.
        ends: Whether its input and its output are transposed: 2, or 1 where the output has no positions left.
    """

    body: Body
    ends: int
    inside: int = 0


NETS = {
    "pure": Net(pure, 2),
    "residual": Net(residual, 2),
    "residual_of_the_input": Net(residual_of_the_input, 2),
    "concat": Net(concat, 2),
    "shuffle": Net(shuffle, 2, inside=1),
    "pooled": Net(pooled, 1),
    "gate_by_convolutions": Net(gate_by_convolutions, 2),
    "gate_by_linears": Net(gate_by_linears, 2),
    "flattened": Net(flattened, 1),
    "flattened_norm": Net(flattened_norm, 1),
    "unflattened": Net(unflattened, 1),
    "unet": Net(unet, 2),
    "unet_transposed": Net(unet_transposed, 2),
    "one_axis": Net(one_axis, 0),
    "attention": Net(attention, 1),
    "next_block": Net(next_block, 2),
    "split_and_joined": Net(split_and_joined, 2),
}


LAYOUTS = ("NHWC", "OHWI")


def calls(mod: tvm.IRModule, name: str) -> dict[str, relax.Call]:
    """Calls of one operator, by variable."""
    return {str(b.var.name): b.value for b in bindings_of(mod["main"]) if name_of(b.value) == f"relax.{name}"}


@pytest.mark.parametrize("name", NETS)
def test_transposes_left(name: str):
    case = NETS[name]
    mod = net(case.body)
    out, _ = to_nhwc(mod)
    verify(out, after="to_nhwc")
    names = operators(out["main"])
    assert names.count("permute_dims") == case.ends + case.inside
    # Those inside are not at the ends; what moves no element is a reshape.
    assert names[1:-1].count("permute_dims") >= case.inside
    for operator, layouts in ("conv1d", ("NWC", "OWI")), ("conv2d", LAYOUTS), ("conv2d_transpose", LAYOUTS):
        for call in calls(out, f"nn.{operator}").values():
            assert (str(call.attrs.data_layout), str(call.attrs.kernel_layout)) == layouts
    np.testing.assert_array_equal(run(out, pixels()), run(mod, pixels()))


@pytest.mark.parametrize("name", GRAPHS)
def test_shared_graphs(name: str):
    mod = GRAPHS[name]()
    out, _ = to_nhwc(mod)
    verify(out, after="to_nhwc")
    inputs = inputs_of(mod)
    expected, got = run(mod, *inputs), run(out, *inputs)
    # Sums of the convolutions are in another order.
    assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()


def test_without_convolutions_nothing_changes():
    mod = GRAPHS["transformer_block"]()
    out, kept = to_nhwc(mod)
    tvm.ir.assert_structural_equal(out, mod)
    assert kept == ()


@pytest.mark.parametrize("name", NETS)
def test_a_second_run_changes_nothing(name: str):
    once, _ = to_nhwc(net(NETS[name].body))
    twice, _ = to_nhwc(once)
    assert operators(twice["main"]) == operators(once["main"])


def test_calls_keep_their_source_and_transposes_get_that_of_their_value():
    out, _ = to_nhwc(net(pure))
    assert {var: sources_of(call) for var, call in calls(out, "permute_dims").items()} == {
        "x_nhwc": ("conv0",),
        "conv7_nchw": ("conv7",),
    }
    assert {
        var: sources_of(call) for var, call in calls(to_nhwc(net(unet_transposed))[0], "permute_dims").items()
    } == {
        "x_nhwc": ("conv0",),
        "conv2_nchw": ("conv2",),
    }
    assert {var: sources_of(call) for var, call in calls(out, "nn.conv2d").items()} == {
        var: (var,) for var in ("conv0", "conv3", "conv7")
    }


def test_one_transpose_serves_all_that_need_it():
    mod = net(lambda n, x: n.then(op.concat([n.conv(x, 8), n.conv(x, 8)], axis=1)))
    assert operators(to_nhwc(mod)[0]["main"]).count("permute_dims") == 2


SCALE = {name: relax.const(np.float32(scale)) for name, scale in (("x", 0.1), ("y", 1.5), ("z", 7.0))}


def quantized(n: Cnn, value: relax.Expr, scale: str, zero_point: int) -> Value:
    parameters = SCALE[scale], relax.const(np.int8(zero_point))
    return n.then(op.dequantize(n.then(op.quantize(value, *parameters)), *parameters))


def quantized_conv(n: Cnn, x: Value, channels: int, kernel: int, groups: int = 1) -> Value:
    """With a scale a channel, and an int32 bias as importers write it."""
    inputs = int(x.ty.shape[1]) // groups
    scales = n.rng.uniform(0.01, 0.1, channels).astype("float32")
    weight = n.rng.integers(-127, 128, (channels, inputs, kernel, kernel)).astype("int8")
    bias = n.rng.integers(-999, 999, channels).astype("int32")
    zeros = [relax.const(np.zeros(channels, dtype)) for dtype in ("int8", "int32")]
    w = n.then(op.dequantize(relax.const(weight), relax.const(scales), zeros[0], axis=0))
    b = n.then(op.dequantize(relax.const(bias), relax.const(scales * np.float32(0.1)), zeros[1], axis=0))
    y = n.then(op.nn.conv2d(x, w, padding=kernel // 2, groups=groups))
    return n.then(op.add(y, n.then(op.reshape(b, (1, channels, 1, 1)))))


def quantized_cnn(n: Cnn, x: Value) -> Value:
    y = quantized(n, quantized_conv(n, quantized(n, x, "x", -6), 8, 3), "x", 3)
    z = quantized(n, relu(n, quantized_conv(n, y, 8, 3, groups=8)), "y", -128)
    s = quantized(n, n.then(op.add(z, y)), "y", 5)
    m = quantized(n, n.then(op.mean(s, [2, 3], keepdims=True)), "y", 5)
    s = quantized(n, n.then(op.multiply(s, m)), "z", 0)
    c = quantized(n, n.then(op.concat([s, s], axis=1)), "z", 0)
    f = n.then(op.reshape(quantized(n, quantized_conv(n, c, 3, 1), "z", -9), (1, 189)))
    zeros, scales = relax.const(np.zeros(5, "int8")), relax.const(np.linspace(0.01, 0.1, 5, dtype="float32"))
    weight = relax.const(n.rng.integers(-127, 128, (5, 189)).astype("int8"))
    w = n.then(op.permute_dims(n.then(op.dequantize(weight, scales, zeros, axis=0)), [1, 0]))
    return quantized(n, n.then(op.matmul(quantized(n, f, "z", -9), w)), "z", 1)


def quantized_net() -> tvm.IRModule:
    return net(quantized_cnn)


def test_quantised_what_is_transposed_is_int8():
    out, kept = to_nhwc(quantized_net())
    transposed = calls(out, "permute_dims").values()
    assert [str(call.ty.dtype) for call in transposed] == ["int8"]
    assert kept == ()
    # Weights and biases are still integers under dequantize.
    assert operators(out["main"]).count("dequantize") == operators(quantized_net()["main"]).count(
        "dequantize"
    )


def test_integer_results_are_those_of_the_models_layout():
    mod = quantized_net()
    before, left = integerize(mod, qdq.NUMERICS)
    after, left_nhwc = integerize(to_nhwc(mod)[0], qdq.NUMERICS)
    verify(after, after="integerize")
    assert len(left_nhwc) == len(left)
    for seed in range(4):
        expected = run(before, pixels(seed=seed))
        np.testing.assert_array_equal(run(after, pixels(seed=seed)), expected)
    assert len(np.unique(expected)) > 1


# Where the transposes that must be are put: where fewest bytes are moved.
ONE_SCALE, ONE_ZERO = relax.const(np.float32(0.1)), relax.const(np.int8(3))


def order(body: Body, *shape: int) -> list[str]:
    return operators(to_nhwc(net(body, *([shape] if shape else [])))[0]["main"])


def test_before_what_enlarges():
    names = order(lambda n, x: n.then(op.image.resize2d(n.conv(x, 8), (18, 14), layout="NCHW")))
    assert names == ["permute_dims", "nn.conv2d", "permute_dims", "image.resize2d"]


def test_behind_what_shrinks():
    names = order(lambda n, x: n.then(op.nn.max_pool2d(n.conv(x, 8), (2, 2), (2, 2))))
    assert names == ["permute_dims", "nn.conv2d", "nn.max_pool2d", "permute_dims"]


def test_of_integers_rather_than_of_floats():
    names = order(
        lambda n, x: n.conv(
            n.then(op.dequantize(n.then(op.quantize(x, ONE_SCALE, ONE_ZERO)), ONE_SCALE, ONE_ZERO)), 8
        )
    )
    assert names == ["quantize", "permute_dims", "dequantize", "nn.conv2d", "permute_dims"]


def test_of_integers_even_where_nothing_moves():
    names = order(
        lambda n, x: n.conv(
            n.then(op.dequantize(n.then(op.quantize(x, ONE_SCALE, ONE_ZERO)), ONE_SCALE, ONE_ZERO)), 1
        ),
        *(1, 1, 9, 7),
    )
    assert names == ["quantize", "reshape", "dequantize", "nn.conv2d", "reshape"]


def test_not_around_what_is_between_two_that_stay():
    # What has no channels-last form stays; so does what it shares with the output.
    names = order(lambda n, x: n.then(op.nn.relu(n.then(op.flip(n.conv(x, 8), 2)))))
    assert names == ["permute_dims", "nn.conv2d", "permute_dims", "flip", "nn.relu"]


def test_a_transpose_of_the_model_is_the_one_that_is_needed():
    names = order(lambda n, x: n.conv(n.then(op.permute_dims(x, [0, 3, 1, 2])), 5), 1, 9, 7, 8)
    assert names == ["nn.conv2d", "permute_dims"]
    names = order(lambda n, x: n.then(op.permute_dims(n.conv(x, 5), [0, 2, 3, 1])))
    assert names == ["permute_dims", "nn.conv2d"]
