# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.canonicalize import STEPS, canonicalize
from relay_passes.sources import bindings_of, sources_of
from tests.relay_passes.graphs import GRAPHS, Net, inputs_of, operators, run, tensor

# Some sixty float32 terms are summed, in another order after folding.
TOLERANCE = 72 * np.finfo(np.float32).eps


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


def test_what_importers_leave_is_gone() -> None:
    assert operators(canonicalize(GRAPHS["conv_bn_relu"]())["main"]) == ["nn.conv2d", "add", "nn.relu"]
    residual = operators(canonicalize(GRAPHS["residual_block"]())["main"])
    assert residual == ["nn.conv2d", "add", "nn.relu", "nn.conv2d", "add", "add", "reshape"]


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


def test_debug_names_the_step_that_broke_the_module() -> None:
    mod = GRAPHS["depthwise"]()
    mod = relax.transform.LegalizeOps()(mod)  # loses all names
    with pytest.raises(ValueError, match="remove_aliases left calls without a source name"):
        canonicalize(mod, debug=True)
