# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from arm_ext.frontends.load import import_model
from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.channels import RemovedChannels, remove_channels
from relay_passes.integerize import integerize
from relay_passes.ir.sources import unnamed_calls
from relay_passes.ir.verify import verify
from relay_passes.programs.merge_modules import merge_modules
from schedules.diagnostic import Diagnostic
from schedules.generic import LEGALIZE
from schedules.numerics import tosa
from schedules.numerics.qdq import NUMERICS
from tests.relay_passes.graphs import Net, inputs_of, tensor
from tests.relay_passes.integerize.qdq import Graph
from tests.schedules.numerics.routines import Per

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)


def outputs(mods: Sequence[tvm.IRModule], *inputs: list[Array]) -> list[list[Array]]:
    """Return the outputs of each module's `main` on this machine, for each list of inputs.

    They are compiled as one module, in which equal operators are one kernel.
    """
    named = {f"main{number}": mod for number, mod in enumerate(mods)}
    lowered = relax.transform.LegalizeOps(LEGALIZE)(merge_modules(named).mod)
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    vm = relax.VirtualMachine(tvm.compile(lowered, target), tvm.cpu())
    return [[vm[name](*map(tvm.runtime.tensor, each)).numpy() for each in inputs] for name in named]


def pruned(
    mod: tvm.IRModule,
) -> tuple[tvm.IRModule, dict[str, RemovedChannels], tuple[Diagnostic, ...]]:
    """Return the verified module without dead channels, and the removed channels by source node."""
    before = canonicalize(mod)
    after, removed, kept = remove_channels(before, NUMERICS)
    verify(after, after="remove_channels")
    assert unnamed_calls(after) == []
    assert [str(p.ty) for p in after["main"].params] == [str(p.ty) for p in before["main"].params]
    assert str(after["main"].ret_ty) == str(before["main"].ret_ty)
    return canonicalize(after), {each.nodes[0]: each for each in removed}, kept


def assert_same(mod: tvm.IRModule, after: tvm.IRModule, ulps: float) -> None:
    (ours,), (theirs,) = outputs([after, mod], inputs_of(mod))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=ulps * EPS * max(float(np.abs(theirs).max()), 1e-3))


class Model(Net):
    """A float graph whose convolutions have filters of zeros."""

    def conv(
        self,
        name: str,
        x: Expr,
        outs: int,
        kernel: int = 1,
        *,
        zero: tuple[int, ...] = (),
        bias: float | None = None,
        **attrs: Any,
    ) -> Var:
        groups = attrs.get("groups", 1)
        weight = self.rng.uniform(-1, 1, (outs, int(x.ty.shape[1]) // groups, kernel, kernel)).astype(
            "float32"
        )
        weight[list(zero)] = 0
        y = self.emit(name, op.nn.conv2d(x, relax.const(weight), **attrs))
        if bias is None:
            return y
        values = self.rng.uniform(-1, 1, (1, outs, 1, 1)).astype("float32")
        values[:, list(zero)] = bias
        return self.emit(name, op.add(y, relax.const(values)))

    def of(self, write: Callable[["Model", Expr], Expr]) -> tvm.IRModule:
        x = tensor("x", 1, 4, 6, 5)
        return self.module([x], lambda: write(self, x))


Write = Callable[[Model, Expr], Expr]


def relu_chain(net: Model, x: Expr) -> Expr:
    y = net.emit("relu", op.nn.relu(net.conv("a", x, 8, 3, zero=(1, 6), bias=-0.5, padding=1)))
    return net.conv("b", y, 5, 3, padding=1)


def residual(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 8, zero=(1, 2, 6), bias=0.0)
    b = net.conv("b", x, 8, zero=(2, 6), bias=0.0)
    return net.conv("c", net.emit("relu", op.nn.relu(net.emit("sum", op.add(a, b)))), 3, 3, padding=1)


def depthwise(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 8, bias=0.1)
    d = net.conv("d", a, 8, 3, zero=(0, 7), bias=0.0, groups=8, padding=1)
    return net.conv("c", net.emit("relu", op.nn.relu(d)), 3)


def multiplier(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 4, bias=0.1)
    d = net.conv("d", a, 8, 3, zero=(2, 3, 5), bias=0.0, groups=4, padding=1)
    return net.conv("c", d, 3)


def grouped(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 6, bias=0.1)
    d = net.conv("d", a, 4, 3, zero=(2, 3), bias=0.0, groups=2, padding=1)
    return net.conv("c", d, 3)


def concatenated(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 4, zero=(1,), bias=0.0)
    b = net.conv("b", x, 3, zero=(0, 2), bias=0.0)
    return net.conv("c", net.emit("cat", op.concat([a, b], axis=1)), 3, 3, padding=1)


def divided(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 8, zero=(1, 4, 5), bias=0.0)
    parts = net.emit("split", op.split(a, 2, axis=1))
    first, second = (net.emit("part", relax.TupleGetItem(parts, i)) for i in (0, 1))
    return net.emit("cat", op.concat([net.conv("b", first, 2), net.conv("c", second, 2)], axis=1))


def sigmoid(net: Model, x: Expr) -> Expr:
    """f(0) = 1/2, which a convolution without padding adds to its bias."""
    y = net.emit("sigmoid", op.sigmoid(net.conv("a", x, 8, zero=(1, 6), bias=0.0)))
    return net.conv("b", y, 5, 3, bias=0.3)


def exponential(net: Model, x: Expr) -> Expr:
    """f(0) = 1, which a convolution with padding cannot add to its bias."""
    return net.conv("b", net.emit("exp", op.exp(net.conv("a", x, 8, zero=(1, 6), bias=0.0))), 5, 3, padding=1)


def flattened(net: Model, x: Expr) -> Expr:
    a = net.emit("relu", op.nn.relu(net.conv("a", x, 8, zero=(3,), bias=0.7)))
    pool = net.emit("pool", op.nn.avg_pool2d(a, (2, 2), (2, 2)))
    flat = net.emit("flat", op.reshape(pool, (1, 8 * 3 * 2)))
    return net.emit("fc", op.matmul(flat, net.const(48, 5)))


def pooled(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 8, zero=(3, 4), bias=0.7)
    pool = net.emit("pool", op.nn.max_pool2d(a, (3, 3), (2, 2), padding=1))
    mean = net.emit("mean", op.mean(net.conv("b", pool, 6, zero=(1,), bias=0.2), [2, 3]))
    return net.emit("fc", op.matmul(mean, net.const(6, 5)))


def resized(net: Model, x: Expr) -> Expr:
    """Channels through a resize, a pad, a PReLU and a transpose; a padded average is constant only for 0."""
    a = net.conv("a", x, 6, zero=(1, 2, 4), bias=0.0)
    up = net.emit("up", op.image.resize2d(a, (12, 10), layout="NCHW", method="linear"))
    padded = net.emit("pad", op.nn.pad(up, [0, 0, 0, 0, 1, 2, 0, 1]))
    steep = net.emit("prelu", op.nn.prelu(padded, net.const(6, low=0.1, high=0.5), axis=1))
    mean = net.emit("mean", op.nn.avg_pool2d(steep, (2, 2), padding=1, count_include_pad=True))
    last = net.emit("nhwc", op.permute_dims(mean, [0, 2, 3, 1]))
    return net.emit("fc", op.matmul(last, net.const(6, 4)))


def gated(net: Model, x: Expr) -> Expr:
    """The product with a gate is 0 where the gate is 0, whatever the other factor is."""
    a = net.conv("a", x, 8, bias=0.1)
    gate = net.emit("gate", op.nn.relu(net.conv("g", x, 8, zero=(0, 5), bias=-1.0)))
    return net.conv("b", net.emit("mul", op.multiply(a, gate)), 3, 3, padding=1)


def unread(net: Model, x: Expr) -> Expr:
    """Channels for which the next convolution has no weights."""
    weight = net.rng.uniform(-1, 1, (3, 8, 3, 3)).astype("float32")
    weight[:, [2, 7]] = 0
    return net.emit("b", op.nn.conv2d(net.conv("a", x, 8, bias=0.1), relax.const(weight), padding=1))


def all_dead(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 4, zero=(0, 1, 2, 3), bias=0.4)
    return net.conv("b", a, 3, bias=0.1)


def transposed(net: Model, x: Expr) -> Expr:
    a = net.conv("a", x, 6, zero=(1, 2), bias=0.0)
    weight = net.rng.uniform(-1, 1, (6, 5, 3, 3)).astype("float32")
    weight[:, 4] = 0
    up = net.emit("up", op.nn.conv2d_transpose(a, relax.const(weight), strides=(2, 2)))
    return net.conv("b", up, 3)


# Name → removed output channels of each product, and tolerance in units of the last place: 0 if only zeros go.
CASES: dict[str, tuple[Write, dict[str, tuple[int, ...]], float]] = {
    "relu_chain": (relu_chain, {"a": (1, 6), "b": ()}, 4),
    "residual": (residual, {"a": (2, 6), "b": (2, 6), "c": ()}, 4),
    "depthwise": (depthwise, {"a": (0, 7), "d": (0, 7), "c": ()}, 4),
    "multiplier": (multiplier, {"a": (1,), "d": (2, 3), "c": ()}, 4),
    "grouped": (grouped, {"a": (3, 4, 5), "d": (2, 3), "c": ()}, 4),
    "concatenated": (concatenated, {"a": (1,), "b": (0, 2), "c": ()}, 4),
    "divided": (divided, {"a": (1, 4, 5), "b": (), "c": ()}, 4),
    "sigmoid": (sigmoid, {"a": (1, 6), "b": ()}, 16),
    "exponential": (exponential, {}, 0),
    "flattened": (flattened, {"a": (3,), "fc": ()}, 16),
    "pooled": (pooled, {"a": (3, 4), "b": (1,), "fc": ()}, 16),
    "resized": (resized, {"a": (1, 2, 4), "fc": ()}, 16),
    "gated": (gated, {"a": (0, 5), "g": (0, 5), "b": ()}, 4),
    "unread": (unread, {"a": (2, 7), "b": ()}, 4),
    "all_dead": (all_dead, {"a": (1, 2, 3), "b": ()}, 4),
    "transposed": (transposed, {"a": (1, 2), "up": (4,), "b": ()}, 4),
}


@pytest.mark.parametrize("case", CASES)
def test_dead_channels_go(case: str):
    write, expected, ulps = CASES[case]
    mod = Model().of(write)
    after, removed, _ = pruned(mod)
    assert {name: each.channels for name, each in removed.items()} == expected
    assert_same(mod, after, ulps)


def test_nothing_dead_leaves_the_module():
    mod = canonicalize(Model().of(lambda net, x: net.conv("b", net.conv("a", x, 8, bias=0.1), 3)))
    after, removed, kept = remove_channels(mod, NUMERICS)
    assert after.same_as(mod)
    assert removed == kept == ()


def test_what_is_saved_is_counted():
    """8 filters of 4 x 3 x 3, on 6 x 5 places; then 5 of 8 x 3 x 3."""
    _, removed, _ = pruned(Model().of(relu_chain))
    first, second = removed["a"], removed["b"]
    assert (first.of, first.inputs, first.macs, first.weight_bytes) == (8, (), 30 * 2 * 36, 4 * 2 * 36)
    assert (second.of, second.inputs, second.of_inputs) == (5, (1, 6), 8)
    assert (second.macs, second.weight_bytes) == (30 * 5 * 2 * 9, 4 * 5 * 2 * 9)


def test_padding_keeps_constants_that_are_not_zero():
    _, _, kept = pruned(Model().of(exponential))
    (left,) = kept
    assert left.nodes == ("b",)
    assert left.why() == (
        "2 constant channels of its data stay: they are not 0, and it pads with 0; prune their biases, too "
        "(BatchNorm's beta), so that they are 0"
    )


def test_outputs_keep_their_channels():
    mod = Model().of(lambda net, x: net.emit("relu", op.nn.relu(net.conv("a", x, 8, zero=(1,), bias=0.0))))
    after, removed, _ = pruned(mod)
    assert removed == {}
    assert_same(mod, after, 0)


def test_batch_norm_with_a_gamma_of_zero():
    """After import and folding of norms, only beta is left, and relu makes a negative one 0."""
    rng = np.random.default_rng(0)

    def const(name: str, value: Array) -> onnx.TensorProto:
        return numpy_helper.from_array(value.astype("float32"), name)

    gamma, beta = rng.uniform(0.5, 1, 8), rng.uniform(-1, 1, 8)
    gamma[[1, 4]], beta[[1, 4]] = 0, -0.25
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"], name="first", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w"], ["y"], name="second", pads=[1] * 4),
    ]
    weights = {
        "v": rng.normal(size=(8, 3, 3, 3)),
        "gamma": gamma,
        "beta": beta,
        "mean": rng.normal(size=8),
        "var": rng.uniform(0.5, 1, 8),
        "w": rng.normal(size=(4, 8, 3, 3)),
    }
    shapes = {"x": [1, 3, 7, 7], "y": [1, 4, 7, 7]}
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items())
    graph = helper.make_graph(nodes, "g", [x], [y], [const(n, v) for n, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    after, removed, _ = pruned(import_model(model).mod)
    assert removed["first"].channels == (1, 4)
    data = rng.normal(size=(1, 3, 7, 7)).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": data})
    np.testing.assert_allclose(
        outputs([after], [data])[0][0], expected, rtol=0, atol=32 * EPS * np.abs(expected).max()
    )


class Quantised(Graph):
    """A random quantised graph with binary and decimal scales, and odd zero points."""

    def per(self) -> Per:
        scale = float(self.rng.choice([2.0**-5, 2.0**-4, 0.05, 0.03]))
        return Per(scale, int(self.rng.integers(-60, 60)) * 2 + 1, "int8")

    def whole(self, real: Expr) -> Var:
        """The value after its quantise and dequantise."""
        per = self.per()
        return self.dequantize("dq", self.quantize("q", real, per), per)

    def conv(self, x: Expr, outs: int) -> Var:
        ins = int(x.ty.shape[1])
        groups = int(self.rng.choice([1, 1, 1, ins]))
        outs = ins if groups > 1 else outs
        kernel = int(self.rng.choice([1, 3]))
        pad = int(self.rng.integers(0, 2)) if kernel == 3 and int(x.ty.shape[2]) > 3 else kernel // 2
        zero_point = int(self.rng.choice([0, 0, 7]))
        weight = self.rng.integers(-90, 91, (outs, ins // groups, kernel, kernel)).astype("int8")
        dead = self.rng.random(outs) < 0.4
        weight[dead] = zero_point
        scale = self.rng.uniform(0.005, 0.02, outs).astype("float32") if self.rng.random() < 0.5 else 0.01
        w = self.weight(weight, scale, zero_point)
        y = self.emit("conv", op.nn.conv2d(x, w, groups=groups, padding=pad))
        bias = self.rng.integers(-3000, 3000, (1, outs, 1, 1)).astype("int32")
        bias[:, dead & (self.rng.random(outs) < 0.6)] = 0
        data = float(self._scales[x])
        units = np.float32(data) * np.float32(scale)
        return self.emit("conv", op.add(y, self.weight(bias, units, np.int32(0), axis=1, name="bias")))

    def dequantize(self, name: str, q: Expr, per: Per) -> Var:
        var = super().dequantize(name, q, per)
        self._scales[var] = per.scale
        return var

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._scales: dict[Expr, float] = {}

    def step(self, values: list[Var]) -> Expr:
        """Return the next float value, computed from one value or from several of equal size."""
        x = values[int(self.rng.integers(max(len(values) - 3, 0), len(values)))]
        alike = [v for v in values if [int(d) for d in v.ty.shape] == [int(d) for d in x.ty.shape]]
        other = alike[int(self.rng.integers(len(alike)))]
        beside = [v for v in values if v.ty.shape[2] == x.ty.shape[2] and v.ty.shape[3] == x.ty.shape[3]]
        kind = str(
            self.rng.choice(["conv", "conv", "conv", "add", "multiply", "concat", "max", "mean", "act"])
        )
        if kind == "conv":
            return self.activated(self.conv(x, int(self.rng.integers(2, 9))))
        if kind in ("add", "multiply"):
            return self.emit(kind, getattr(op, kind)(x, other))
        if kind == "concat" and sum(int(v.ty.shape[1]) for v in beside[-2:]) < 16:
            return self.emit("concat", op.concat(beside[-2:], axis=1))
        if kind == "max" and int(x.ty.shape[2]) > 3:
            return self.emit("max", op.nn.max_pool2d(x, (2, 2), (1, 1)))
        if kind == "mean" and int(x.ty.shape[2]) > 3:
            return self.emit(
                "mean", op.nn.avg_pool2d(x, (2, 2), (1, 1), padding=int(self.rng.integers(0, 2)))
            )
        return self.activated(x)

    def activated(self, x: Expr) -> Expr:
        """Apply a random activation, most of which are not 0 at 0."""
        name = str(self.rng.choice(["", "nn.relu", "sigmoid", "exp", "tanh"]))
        if name == "nn.relu":
            return self.emit("relu", op.nn.relu(x))
        if name:
            return self.emit(name, getattr(op, name)(x))
        return x

    def end(self, x: Expr) -> Expr:
        count = int(x.ty.shape[1])
        if self.rng.random() < 0.5:
            x = self.emit("flat", op.reshape(self.whole(self.emit("mean", op.mean(x, [2, 3]))), (1, count)))
        else:
            count *= int(x.ty.shape[2]) * int(x.ty.shape[3])
            x = self.emit("flat", op.reshape(x, (1, count)))
        weight = self.rng.integers(-90, 91, (count, 4)).astype("int8")
        return self.whole(self.emit("fc", op.matmul(x, self.weight(weight, 0.01))))


def random_graph(seed: int) -> tvm.IRModule:
    net = Quantised(seed)
    x = tensor("x", 1, 5, 6, 6, dtype="int8")

    def body() -> Expr:
        values = [net.dequantize("dq", x, net.per())]
        for _ in range(8):
            values.append(net.whole(net.step(values)))
        return net.end(values[-1])

    return net.module([x], body)


@pytest.mark.each_once
@pytest.mark.parametrize("numerics", [NUMERICS, tosa.NUMERICS], ids=lambda numerics: numerics.name)
@pytest.mark.parametrize("averaged", [False, True])
def test_constants_round_as_the_numerics_do(numerics: Any, averaged: bool):
    """Biases that fall on ties, which float operators would round to other integers."""
    net, outs = Graph(), 801
    x = tensor("x", 1, 2, 3, 3, dtype="int8")
    weight = np.zeros((outs, 2, 1, 1), "int8")
    weight[-1] = 50
    identity = np.eye(outs, dtype="int8").reshape(outs, outs, 1, 1)
    bias = np.arange(-400, 401, dtype="int32").reshape(1, -1, 1, 1)
    per = Per(0.002, 3, "int8")

    def body() -> Expr:
        data = net.dequantize("dq", x, Per(0.05, -7, "int8"))
        a = net.emit("a", op.nn.conv2d(data, net.weight(weight, 0.01)))
        units = np.float32(0.05) * np.float32(0.01)
        a = net.emit("a", op.add(a, net.weight(bias, units, np.int32(0))))
        a = net.dequantize("dq", net.quantize("q", a, per), per)
        if averaged:
            per_mean = Per(0.0035, 1, "int8")
            a = net.dequantize(
                "dq", net.quantize("q", net.emit("m", op.nn.avg_pool2d(a, (3, 3))), per_mean), per_mean
            )
        b = net.emit("b", op.nn.conv2d(a, net.weight(identity, 1.0)))
        return net.quantize("q", b, Per(0.002, 0, "int8"))

    before = canonicalize(net.module([x], body))
    after, removed, _ = remove_channels(before, numerics)
    assert removed[0].channels == tuple(range(outs - 1))
    ours, theirs = (integerize(mod, numerics)[0] for mod in (canonicalize(after), before))
    data = [np.random.default_rng(0).integers(-128, 128, (1, 2, 3, 3)).astype("int8")]
    np.testing.assert_array_equal(*outputs([ours, theirs], data))


@pytest.mark.parametrize(
    ("seed", "numerics"),
    [
        (4, NUMERICS),
        pytest.param(11, NUMERICS, marks=pytest.mark.long),
        (32, tosa.NUMERICS),
        pytest.param(54, tosa.NUMERICS, marks=pytest.mark.long),
    ],
    ids=["qdq-4", "qdq-11", "tosa-32", "tosa-54"],
)
def test_integers_are_those_of_the_whole_model(seed: int, numerics: Any):
    assert assert_integers_stay(seed, numerics)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_integers_of_many_graphs(seed: int):
    assert_integers_stay(seed, NUMERICS)


def assert_integers_stay(seed: int, numerics: Any) -> tuple[RemovedChannels, ...]:
    """Assert that integers of a random graph stay the same, and return the removed channels."""
    before = canonicalize(random_graph(seed))
    after, removed, _ = remove_channels(before, numerics)
    verify(after, after="remove_channels")
    ours, theirs = (integerize(mod, numerics)[0] for mod in (canonicalize(after), before))
    rng = np.random.default_rng(seed)
    data = [[rng.integers(-128, 128, (1, 5, 6, 6)).astype("int8")] for _ in range(8)]
    np.testing.assert_array_equal(*outputs([ours, theirs], *data))
    return removed
