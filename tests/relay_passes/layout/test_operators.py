# SPDX-License-Identifier: Apache-2.0
"""Every operator of the table between two convolutions: nothing is transposed there, and values stay."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from relay_passes.ir.verify import verify
from relay_passes.layout import to_nhwc
from relay_passes.layout.operators import OPERATORS
from tests.relay_passes.graphs import operators, run
from tests.relay_passes.layout.nets import SHAPE, Cnn, net, pixels, run_all

Step = Callable[[Cnn, relax.Var], relax.Expr]

UNARY = (
    "abs acos asin asinh atan atanh cos cosh erf exp log negative nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu "
    "nn.selu nn.silu nn.softplus rsqrt sigmoid sign sin sinh sqrt square tan tanh"
)
ROUNDING = "ceil floor round trunc"
BINARY = "add divide floor_divide floor_mod maximum minimum mod multiply power subtract"
COMPARISONS = "equal greater greater_equal less less_equal not_equal"
TESTS = "isfinite isinf isnan"
LOGICAL = "logical_and logical_or logical_xor"
BITWISE = "bitwise_and bitwise_or bitwise_xor left_shift right_shift"


def function(name: str) -> Callable[..., relax.Expr]:
    return getattr(op.nn if name.startswith("nn.") else op, name.removeprefix("nn."))


def as_float(n: Cnn, y: relax.Expr) -> relax.Expr:
    return op.astype(n.then(y), "float32")


def by_channel(n: Cnn, dtype: str = "float32") -> relax.Expr:
    """One number in (0, 1], or from 1 to 3, for each of 8 channels."""
    low = [0.25, 1][dtype != "float32"]
    return relax.const((low * (1 + np.arange(8) % 3)).astype(dtype).reshape(8, 1, 1))


def whole(n: Cnn, y: relax.Var) -> relax.Var:
    return n.then(op.astype(n.then(op.multiply(y, relax.const(np.float32(100)))), "int32"))


def truth(n: Cnn, y: relax.Var) -> relax.Var:
    return n.then(op.greater(y, by_channel(n)))


def unary(name: str) -> Step:
    return lambda n, y: function(name)(y)


def rounding(name: str) -> Step:
    return lambda n, y: function(name)(n.then(op.multiply(y, relax.const(np.float32(9)))))


def binary(name: str) -> Step:
    return lambda n, y: function(name)(y, by_channel(n))


def comparison(name: str) -> Step:
    return lambda n, y: as_float(n, function(name)(y, by_channel(n)))


def finiteness(name: str) -> Step:
    """Of infinities, NaN and numbers: the log of what is 0, below and above."""

    def step(n: Cnn, y: relax.Var) -> relax.Expr:
        y = n.then(
            op.log(n.then(op.subtract(n.then(op.maximum(y, relax.const(np.float32(0.4)))), by_channel(n))))
        )
        return as_float(n, function(name)(y))

    return step


def logical(name: str) -> Step:
    return lambda n, y: as_float(n, function(name)(truth(n, y), truth(n, n.then(op.square(y)))))


def bitwise(name: str) -> Step:
    return lambda n, y: as_float(n, function(name)(whole(n, y), by_channel(n, "int32")))


STEPS: dict[str, Step] = {
    **{name: unary(name) for name in UNARY.split()},
    **{name: rounding(name) for name in ROUNDING.split()},
    **{name: binary(name) for name in BINARY.split()},
    **{name: comparison(name) for name in COMPARISONS.split()},
    **{name: finiteness(name) for name in TESTS.split()},
    **{name: logical(name) for name in LOGICAL.split()},
    **{name: bitwise(name) for name in BITWISE.split()},
    "acosh": lambda n, y: op.acosh(n.then(op.add(y, relax.const(np.float32(1))))),
    "argmax": lambda n, y: as_float(n, op.argmax(y, 1, keepdims=True)),
    "argmin": lambda n, y: as_float(n, op.argmin(y, -2, keepdims=True)),
    "astype": lambda n, y: as_float(n, op.astype(y, "float16")),
    "bitwise_not": lambda n, y: as_float(n, op.bitwise_not(whole(n, y))),
    "clip": lambda n, y: op.clip(y, 0.3, 0.6),
    "concat": lambda n, y: op.concat([y, n.then(op.negative(y)), n.const(1, 3, 9, 7)], axis=1),
    "dequantize": lambda n, y: op.dequantize(
        n.then(op.quantize(y, relax.const(np.float32(1 / 64)), relax.const(np.int8(3)))),
        relax.const(np.arange(1, 9, dtype="float32")),
        relax.const(np.arange(8, dtype="int8")),
        axis=1,
    ),
    "image.resize2d": lambda n, y: op.image.resize2d(y, (18, 13), layout="NCHW", method="linear"),
    "logical_not": lambda n, y: as_float(n, op.logical_not(truth(n, y))),
    "max": lambda n, y: op.max(y, [1], keepdims=True),
    "mean": lambda n, y: op.mean(y, [2, 3], keepdims=True),
    "min": lambda n, y: op.min(y, [-1], keepdims=True),
    "nn.adaptive_avg_pool2d": lambda n, y: op.nn.adaptive_avg_pool2d(y, (3, 2)),
    "nn.avg_pool2d": lambda n, y: op.nn.avg_pool2d(y, (3, 2), (2, 1), (1, 0, 1, 1)),
    "nn.batch_norm": lambda n, y: relax.TupleGetItem(
        n.then(op.nn.batch_norm(y, *[by_channel_1d(4)] * 4, axis=1, training=False)), 0
    ),
    "nn.conv1d": lambda n, y: op.reshape(
        n.then(
            op.nn.conv1d(
                n.then(op.reshape(y, (1, 8, 63))), n.const(8, 4, 5), groups=2, dilation=2, padding=(5, 3)
            )
        ),
        (1, 8, 9, 7),
    ),
    "nn.conv2d": lambda n, y: op.nn.conv2d(
        y, n.const(8, 4, 3, 2), groups=2, dilation=2, padding=(1, 0, 2, 1), strides=(2, 1)
    ),
    "nn.conv2d_transpose": lambda n, y: op.nn.conv2d_transpose(
        y,
        n.const(8, 4, 3, 2),
        groups=2,
        dilation=(1, 2),
        padding=(1, 0, 2, 1),
        strides=(2, 3),
        output_padding=(1, 0),
    ),
    "nn.group_norm": lambda n, y: op.nn.group_norm(y, by_channel_1d(), by_channel_1d(3), 2, 1, [2, 3]),
    "nn.instance_norm": lambda n, y: op.nn.instance_norm(y, by_channel_1d(), by_channel_1d(3), 1, [2, 3]),
    "nn.log_softmax": lambda n, y: op.nn.log_softmax(y, 1),
    "nn.max_pool2d": lambda n, y: op.nn.max_pool2d(y, (3, 2), (2, 2), (1, 0, 1, 1), ceil_mode=True),
    "nn.pad": lambda n, y: op.nn.pad(y, [0, 0, 1, 2, 3, 0, 0, 4], pad_value=2.0),
    "nn.prelu": lambda n, y: op.nn.prelu(n.then(op.negative(y)), by_channel_1d(), 1),
    "nn.softmax": lambda n, y: op.nn.softmax(y, -3),
    "permute_dims": lambda n, y: op.permute_dims(n.then(op.permute_dims(y, [0, 2, 3, 1])), [0, 3, 1, 2]),
    "prod": lambda n, y: op.prod(y, [1], keepdims=True),
    "quantize": lambda n, y: as_float(
        n, op.quantize(y, by_channel_1d(5), relax.const(np.arange(8, dtype="int8")), axis=1)
    ),
    "reshape": lambda n, y: op.reshape(n.then(op.reshape(y, (1, 2, 4, 9, 7))), (1, 8, 9, 7)),
    "expand_dims": lambda n, y: op.squeeze(n.then(op.expand_dims(y, [2])), [2]),
    "split": lambda n, y: relax.TupleGetItem(n.then(op.split(y, [3], axis=1)), 1),
    "squeeze": lambda n, y: op.expand_dims(n.then(op.squeeze(y, [0])), [0]),
    "std": lambda n, y: op.std(y, [2, 3], keepdims=True),
    "strided_slice": lambda n, y: op.strided_slice(y, [1, -1], [1, 6], [7, -8], [2, -1]),
    "sum": lambda n, y: op.sum(y, [1], keepdims=True),
    "variance": lambda n, y: op.variance(y, [2, 3], keepdims=True),
    "where": lambda n, y: op.where(truth(n, y), y, by_channel(n)),
}


def by_channel_1d(first: int = 1) -> relax.Expr:
    return relax.const(np.arange(first, first + 8, dtype="float32"))


FLATTENING = {
    "flatten": lambda n, y: op.flatten(y),
    "nn.batch_flatten": lambda n, y: op.nn.batch_flatten(y),
    "matmul": lambda n, y: op.matmul(n.then(op.reshape(y, (1, 504))), n.const(504, 5)),
}


def test_every_operator_of_the_table_is_here():
    assert {*STEPS, *FLATTENING} == set(OPERATORS)


def sandwich(names: Sequence[str]) -> tvm.IRModule:
    """Each operator on a branch of its own, a convolution before them all and one behind each."""

    def body(n: Cnn, x: relax.Var) -> relax.Expr:
        # Values in (0, 1), in the domain of every function, and of all kinds.
        y = n.then(op.sigmoid(n.then(op.multiply(n.conv(x, 8), relax.const(np.float32(1 / 32))))))
        ends = [n.conv(n.then(STEPS[name](n, y)), 5) for name in names]
        return ends[0] if len(ends) == 1 else n.bb.emit(relax.Tuple(ends))

    return net(body)


@pytest.mark.parametrize("name", STEPS)
def test_between_convolutions_nothing_is_transposed(name: str):
    out, kept = to_nhwc(sandwich([name]))
    verify(out, after="to_nhwc")
    assert operators(out["main"])[0] == "permute_dims"
    assert "permute_dims" not in operators(out["main"])[1:-1]
    assert kept == ()


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    mod = sandwich(list(STEPS))
    return dict(
        zip(STEPS, zip(run_all(mod, pixels()), run_all(to_nhwc(mod)[0], pixels()), strict=True), strict=True)
    )


@pytest.mark.parametrize("name", STEPS)
def test_values_stay(name: str, results: dict[str, tuple[np.ndarray, np.ndarray]]):
    expected, got = results[name]
    assert np.isfinite(expected).all()
    assert len(np.unique(expected)) > 1
    # The second convolution adds up in another order.
    assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", FLATTENING)
def test_flattened_axes(name: str):
    mod = net(lambda n, x: n.then(FLATTENING[name](n, n.conv(x, 8))))
    out, _ = to_nhwc(mod)
    assert operators(out["main"]).count("permute_dims") == (1 if name == "matmul" else 2)
    np.testing.assert_array_equal(run(out, pixels()), run(mod, pixels()))


NEAR_MISSES: dict[str, tuple[Step, str]] = {
    "reshape": (
        lambda n, y: n.conv(n.then(op.reshape(y, (1, 9, 8, 7))), 5),
        "a reshape from [1, 8, 9, 7] to [1, 9, 8, 7] mixes channels with positions",
    ),
    "argmax": (
        lambda n, y: op.argmax(n.then(op.reshape(y, (1, 504))), 1),
        "it gives places among flattened elements",
    ),
    "concat": (
        lambda n, y: n.conv(
            n.then(op.reshape(n.then(op.concat([n.then(op.sum(y, [2, 3])), n.const(1, 496)], 1)), SHAPE)), 5
        ),
        "axis 1 is flattened from several",
    ),
    "matmul": (
        lambda n, y: op.matmul(y, n.then(op.permute_dims(y, [0, 1, 3, 2]))),
        "its second operand is no constant matrix",
    ),
    "broadcast_to": (
        lambda n, y: op.broadcast_to(y, (2, *SHAPE[1:])),
        "no channels-last form of it is known",
    ),
    "conv2d_transpose": (
        lambda n, y: op.nn.conv2d_transpose(y, n.then(op.reshape(y, (8, 1, 9, 7))), groups=8),
        "its weights are computed at run time",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_stays_says_why(name: str):
    step, reason = NEAR_MISSES[name]
    mod = net(lambda n, x: n.then(step(n, n.conv(x, 8))))
    out, kept = to_nhwc(mod)
    assert [k.reason for k in kept] == [reason]
    assert kept[0].nodes
    np.testing.assert_array_equal(run(out, pixels()), run(mod, pixels()))


def test_weights_computed_at_run_time_keep_their_convolution():
    mod = net(lambda n, x: n.then(op.nn.conv2d(x, n.then(op.reshape(x, (8, 1, 9, 7))), groups=8)))
    out, kept = to_nhwc(mod)
    tvm.ir.assert_structural_equal(out, mod)
    assert [str(k) for k in kept] == ["step1: nn.conv2d: its weights are computed at run time"]
