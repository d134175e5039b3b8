# SPDX-License-Identifier: Apache-2.0
import sys
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.relax.dpl import is_op, wildcard

from relay_passes.canonicalize.canonicalize import STEPS, canonicalize
from relay_passes.ir.sources import bindings_of, sources_of
from relay_passes.rewriter import engine
from relay_passes.rewriter.engine import explain
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Rule
from relay_passes.rules import fold_shift_before
from tests.relay_passes.forms import Ops, form
from tests.relay_passes.graphs import GRAPHS as COMMON
from tests.relay_passes.graphs import Net, inputs_of, operators, run, tensor

# Some sixty float32 terms are summed, in another order after folding.
TOLERANCE = 72 * np.finfo(np.float32).eps


def _batch_norm(net: Net, name: str, x: Expr) -> Expr:
    channels = int(x.ty.shape[1])
    parameters = (*(net.const(channels) for _ in range(3)), net.const(channels, low=0.5, high=1.5))
    norm = net.emit(name, op.nn.batch_norm(x, *parameters, axis=1, training=False))
    return net.bb.emit(relax.TupleGetItem(norm, 0))


def norm_before_conv() -> tvm.IRModule:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        y = net.emit("pointwise", op.nn.conv2d(_batch_norm(net, "bn1", x), net.const(8, 8, 1, 1)))
        y = net.emit("relu", op.nn.relu(y))
        return net.emit("padded", op.nn.conv2d(_batch_norm(net, "bn2", y), net.const(8, 8, 3, 3), padding=1))

    return net.module([x], body)


def _normalised(mean: np.ndarray, deviation: np.ndarray) -> tvm.IRModule:
    """(x / 255 - mean) / deviation, and a padded convolution with BatchNorm on it."""
    net, x = Net(), tensor("x", 1, 3, 9, 7)
    shape = (1, -1, 1, 1)

    def body() -> Expr:
        y = net.emit("unit", op.divide(x, relax.const(np.float32(255))))
        y = net.emit("centre", op.subtract(y, relax.const(mean.astype("float32").reshape(shape))))
        y = net.emit("scale", op.divide(y, relax.const(deviation.astype("float32").reshape(shape))))
        y = net.emit("conv", op.nn.conv2d(y, net.const(8, 3, 3, 3), padding=1))
        return net.emit("relu", op.nn.relu(_batch_norm(net, "bn", y)))

    return net.module([x], body)


def normalised_channels() -> tvm.IRModule:
    return _normalised(np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225]))


def normalised_alike() -> tvm.IRModule:
    return _normalised(np.array([0.5]), np.array([0.25]))


def chains() -> tvm.IRModule:
    """Transposes, reshapes, slices, scales, powers and copies that come to little."""
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        y = net.emit("to_nhwc", op.permute_dims(x, [0, 2, 3, 1]))
        y = net.emit("flat", op.reshape(net.emit("one", op.multiply(y, relax.const(1.0))), (63, 8)))
        y = net.emit("to_map", op.reshape(net.emit("zero", op.add(y, relax.const(0.0))), (1, 9, 7, 8)))
        y = net.emit("to_nchw", op.permute_dims(y, [0, 3, 1, 2]))
        parts = [net.emit(f"part{i}", op.strided_slice(y, [1], [i * 4], [i * 4 + 4])) for i in (0, 1)]
        y = net.emit("joined", op.concat(parts, axis=1))
        y = net.emit("half", op.divide(net.emit("square", op.power(y, relax.const(2.0))), relax.const(3.0)))
        return net.emit("double", op.multiply(y, relax.const(6.0)))

    return net.module([x], body)


OWN = (norm_before_conv, normalised_channels, normalised_alike, chains)
GRAPHS = {**COMMON, **{graph.__name__: graph for graph in OWN}}


def test_each_step_runs_after_those_it_needs() -> None:
    done: list[str] = []
    for step in STEPS:
        assert set(step.needs) <= set(done), step.name
        done.append(step.name)
    assert len(set(done)) == len(done)


@pytest.mark.parametrize("graph", GRAPHS)
def test_values_are_kept(graph: str) -> None:
    mod = GRAPHS[graph]()
    inputs = inputs_of(mod)
    expected = run(mod, *inputs)
    error = np.abs(run(canonicalize(mod, debug=True), *inputs) - expected).max() / np.abs(expected).max()
    assert error <= TOLERANCE


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_same_input_gives_the_same_text_and_the_result_is_canonical(graph: str) -> None:
    first, second = canonicalize(GRAPHS[graph]()), canonicalize(GRAPHS[graph]())
    assert first.script() == second.script()
    assert canonicalize(first).script() == first.script()


def test_in_debug_mode_the_rule_that_broke_the_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wildcard()
    flat = Rule(
        "flatten",
        is_op("relax.nn.relu")(x),
        {"x": x},
        lambda match: match,
        lambda match: op.reshape(match.operands["x"], (-1,)),
    )
    monkeypatch.setattr(sys.modules[canonicalize.__module__], "RULES", (flat,))
    monkeypatch.setattr(engine, "_check_types", lambda *_: None)
    with pytest.raises(ValueError, match="rule flatten left a module that is not well-formed"):
        canonicalize(COMMON["conv_bn_relu"](), debug=True)


def test_what_importers_leave_is_gone() -> None:
    assert operators(canonicalize(GRAPHS["conv_bn_relu"]())["main"]) == ["nn.conv2d", "add", "nn.relu"]
    residual = operators(canonicalize(GRAPHS["residual_block"]())["main"])
    assert residual == ["nn.conv2d", "add", "nn.relu", "nn.conv2d", "add", "add", "reshape"]


def test_a_norm_before_a_conv_goes_into_it_as_far_as_padding_allows() -> None:
    main = canonicalize(GRAPHS["norm_before_conv"]())["main"]
    # Of the second norm the shift is left, one number a channel that padding would need, too.
    assert operators(main) == ["nn.conv2d", "add", "nn.relu", "add", "nn.conv2d"]


def test_an_input_normalisation_goes_into_the_first_conv() -> None:
    assert operators(canonicalize(GRAPHS["normalised_alike"]())["main"]) == [
        "nn.pad",
        "nn.conv2d",
        "add",
        "nn.relu",
    ]


def test_of_one_with_a_shift_a_channel_the_shift_is_left_and_it_is_said_why() -> None:
    after = canonicalize(GRAPHS["normalised_channels"]())
    assert operators(after["main"]) == ["add", "nn.conv2d", "add", "nn.relu"]
    (rejection,) = explain(after, fold_shift_before.RULE).rejected
    assert rejection.reason == "padding would need one value a channel"
    assert {"centre", "conv"} <= set(rejection.nodes)


def test_chains_come_to_what_they_compute() -> None:
    assert operators(canonicalize(GRAPHS["chains"]())["main"]) == ["multiply", "multiply"]


def test_constants_cascade_into_weights() -> None:
    net, x = Net(), tensor("x", 7, 8)

    def body() -> Expr:
        stored = net.emit("transpose", op.permute_dims(net.const(31, 8)))
        weight = net.emit("weight", op.multiply(stored, net.emit("exp", op.exp(net.const(31)))))
        y = net.emit("fc", op.matmul(x, weight))
        return net.emit("scale", op.multiply(y, net.emit("root", op.sqrt(net.const(31, low=0.5)))))

    mod = net.module([x], body)
    after = canonicalize(mod)
    assert operators(after["main"]) == ["matmul"]
    inputs = inputs_of(mod)
    expected = run(mod, *inputs)
    assert np.abs(run(after, *inputs) - expected).max() <= TOLERANCE * np.abs(expected).max()


def test_unused_outputs_of_a_norm_do_not_keep_it() -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        y = net.emit("conv", op.nn.conv2d(x, net.const(8, 8, 1, 1)))
        bn = net.emit(
            "bn", op.nn.batch_norm(y, *(net.const(8, low=0.5) for _ in range(4)), axis=1, training=False)
        )
        for item in (1, 2):
            net.bb.emit(relax.TupleGetItem(bn, item))
        return net.bb.emit(relax.TupleGetItem(bn, 0))

    assert operators(canonicalize(net.module([x], body))["main"]) == ["nn.conv2d", "add"]


def test_equal_calls_are_merged_and_keep_both_names() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        left = net.emit("left_scaled", op.multiply(net.emit("left", op.exp(x)), relax.const(2.0)))
        right = net.emit("right_scaled", op.multiply(net.emit("right", op.exp(x)), relax.const(2.0)))
        return net.emit("sum", op.add(left, right))

    main = canonicalize(net.module([x], body))["main"]
    assert [sources_of(b.value) for b in bindings_of(main)] == [
        ("left", "right"),
        ("left_scaled", "right_scaled"),
        ("sum",),
    ]


def test_what_does_nothing_hides_no_pattern() -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        y = net.emit("conv", op.nn.conv2d(x, net.const(8, 8, 1, 1)))
        return _batch_norm(net, "bn", net.emit("same", op.reshape(y, (1, 8, 9, 7))))

    record = RewriteRecord()
    after = canonicalize(net.module([x], body), record=record)
    assert operators(after["main"]) == ["nn.conv2d", "add"]
    assert record.hits()["fold_batch_norm"] == 1


def test_kernels_of_importers_become_operators() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        return net.emit("relu", net.bb.call_te(tvm.topi.maximum, x, relax.const(np.zeros((), "float32"))))

    after = canonicalize(net.module([x], body))
    assert operators(after["main"]) == ["nn.relu"]
    assert [gv.name_hint for gv in after.get_global_vars()] == ["main"]


def test_equal_constants_of_different_calls_are_one() -> None:
    net, x = Net(), tensor("x", 7, 8)
    weight = np.ones((8, 8), "float32") / 3

    def body() -> Expr:
        y = net.emit("relu", op.nn.relu(net.emit("first", op.matmul(x, relax.const(weight)))))
        return net.emit("second", op.matmul(y, relax.const(weight.copy())))

    first, _, second = [b.value for b in bindings_of(canonicalize(net.module([x], body))["main"])]
    assert first.args[1].same_as(second.args[1])


def test_qdq_is_kept() -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)
    scale, zero = relax.const(np.float32(0.5)), relax.const(np.int8(3))

    def body() -> Expr:
        q = net.emit("q", op.quantize(x, scale, zero, axis=1, out_dtype="int8"))
        y = net.emit("dq", op.dequantize(q, scale, zero, axis=1))
        stored = relax.const(np.arange(64, dtype="int8").reshape(8, 8, 1, 1))
        weight = net.emit("wdq", op.dequantize(stored, scale, zero, axis=0))
        y = net.emit("conv", op.nn.conv2d(y, weight))
        q = net.emit("q2", op.quantize(y, scale, zero, axis=1, out_dtype="int8"))
        return net.emit("dq2", op.dequantize(q, scale, zero, axis=1))

    mod = net.module([x], body)
    after = canonicalize(mod, debug=True)
    assert operators(after["main"]) == operators(mod["main"])
    tvm.ir.assert_structural_equal(canonicalize(after), after)


@pytest.mark.parametrize("quantises", [False, True])
def test_where_something_is_quantised_no_last_bit_changes(quantises: bool) -> None:
    net, x = Net(), tensor("x", 31)
    scale, zero = relax.const(np.float32(0.5)), relax.const(np.int8(3))

    def body() -> Expr:
        y = net.emit("third", op.divide(x, relax.const(3.0)))
        y = net.emit("square", op.power(net.emit("half", op.divide(y, relax.const(2.0))), relax.const(2.0)))
        if not quantises:
            return y
        q = net.emit("q", op.quantize(y, scale, zero, axis=0, out_dtype="int8"))
        return net.emit("dq", op.dequantize(q, scale, zero, axis=0))

    after = operators(canonicalize(net.module([x], body))["main"])
    # Half of something is exact either way.
    kept = ["divide", "multiply", "power", "quantize", "dequantize"]
    assert after == (kept if quantises else ["multiply", "multiply"])


@pytest.mark.parametrize("quantises", [False, True])
def test_hard_sigmoid_keeps_its_ties_where_they_are_quantised(quantises: bool) -> None:
    net, x = Net(), tensor("x", 7)
    scale, zero = relax.const(np.float32(1 / 64)), relax.const(np.int8(0))

    def body() -> Expr:
        y = net.emit("clip", op.clip(net.emit("shift", op.add(x, relax.const(3.0))), 0.0, 6.0))
        y = net.emit("sixth", op.divide(y, relax.const(6.0)))
        if not quantises:
            return y
        return net.emit("q", op.quantize(y, scale, zero, axis=0, out_dtype="int8"))

    after = operators(canonicalize(net.module([x], body))["main"])
    assert after == (["add", "clip", "divide", "quantize"] if quantises else ["multiply", "add", "clip"])


def test_debug_names_the_step_that_broke_the_module() -> None:
    mod = GRAPHS["depthwise"]()
    mod = relax.transform.LegalizeOps()(mod)  # loses all names
    with pytest.raises(ValueError, match="remove_aliases left calls without a source name"):
        canonicalize(mod, debug=True)


def _wide(dtype: str, *shape: int) -> Expr:
    return relax.const(np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape), dtype)


WIDE: dict[str, Callable[[Ops, Expr], Expr]] = {
    "shifts": lambda ops, x: ops.add(ops.subtract(x, _wide("float64", 6)), _wide("float64", 6)),
    "scales": lambda ops, x: ops.multiply(ops.multiply(x, _wide("float64", 6)), _wide("float64", 6)),
    "divided": lambda ops, x: ops.divide(x, relax.const(np.full(6, 4.0), "float64")),
    "split": lambda ops, x: ops.add(ops.reshape(x, (2, 2, 3)), _wide("float64", 2, 3)),
    "product": lambda ops, x: ops.add(
        ops.multiply(
            ops.matmul(ops.add(x, _wide("float64", 6)), _wide("float64", 6, 5)), _wide("float64", 5)
        ),
        _wide("float64", 5),
    ),
}


@pytest.mark.parametrize("write", WIDE.values(), ids=WIDE)
def test_constants_of_64_bits_keep_them(write: Callable[[Ops, Expr], Expr]):
    mod = form(write, (2, 6), dtype="float64")
    x = np.random.default_rng(2).standard_normal((2, 6))
    before, after = run(mod, x), run(canonicalize(mod, debug=True), x)
    np.testing.assert_allclose(after, before, rtol=1e-14, atol=1e-13)


def test_one_number_of_64_bits_before_a_split():
    number = relax.const(np.array(7, "int64"), "int64")
    mod = form(lambda ops, x: ops.multiply(ops.reshape(x, (4, 1, 1)), number), (4,), dtype="int64")
    x = np.arange(4) + 2**40
    np.testing.assert_array_equal(run(canonicalize(mod, debug=True), x), (x * 7).reshape(4, 1, 1))
