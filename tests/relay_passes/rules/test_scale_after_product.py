# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes import fuse, to_half_precision
from relay_passes.ir.sources import relax_functions
from relay_passes.rules.scale_after_product import RULE
from schedules.composites.vocabulary import VOCABULARY
from tests.relay_passes.graphs import Net, operators, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, graph, rejection, relative_error, rewritten

K, N = 9, 7
INTEGERS = np.random.default_rng(0).integers(-128, 128, (K, N)).astype(np.int8)
SCALES = np.linspace(0.01, 0.2, N, dtype=np.float32)


def _weights(integers: np.ndarray = INTEGERS, scale: object = SCALES, zero: int = 0, axis: int = 1) -> Expr:
    scale = np.asarray(scale, np.float32)
    zeros = np.full(scale.shape, zero, np.int8)
    return op.dequantize(relax.const(integers), relax.const(scale), relax.const(zeros), axis=axis)


def _module(weights: Callable[[Net], Expr]) -> tvm.IRModule:
    def build(net: Net, x: Expr) -> Expr:
        w = net.emit("w", weights(net))
        return net.emit("bias", op.add(net.emit("fc", op.matmul(x, w)), net.const(N)))

    return graph(build, tensor("x", 3, K))


FORMS: dict[str, Callable[[Net], Expr]] = {
    "a scale a channel": lambda net: _weights(),
    "one number": lambda net: _weights(scale=np.float32(0.3)),
    "transposed": lambda net: op.permute_dims(
        net.emit("q", _weights(np.ascontiguousarray(INTEGERS.T), axis=0)), [1, 0]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_product_is_of_integers(form: str) -> None:
    mod = _module(FORMS[form])
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["matmul", "multiply", "add"]
    assert relative_error(mod, after) <= 4 * K * ROUNDOFF
    (product,) = [b.value for b in after["main"].body.blocks[0].bindings if b.value.op.name == "relax.matmul"]
    np.testing.assert_array_equal(product.args[1].value.numpy(), INTEGERS)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_product_scale_and_bias_are_one_composite(precision: str) -> None:
    mod = _module(FORMS["a scale a channel"])
    mod = to_half_precision(mod, "float16") if precision == "float16" else mod
    fused = fuse(rewritten(mod, RULE), VOCABULARY)
    (composite,) = [f for _, f in relax_functions(fused) if f.attrs and "Composite" in f.attrs]
    assert composite.attrs["Composite"] == "arm.linear_w8"
    steps = ["multiply", "astype", "add"] if precision == "float16" else ["multiply", "add"]
    assert operators(composite) == ["matmul", *steps]


def test_a_product_of_halves_stays_one() -> None:
    def build(net: Net, x: Expr) -> Expr:
        return net.emit("fc", op.matmul(x, net.emit("cast", op.astype(net.emit("w", _weights()), "float16"))))

    after = rewritten(graph(build, tensor("x", 3, K, dtype="float16")), RULE)
    assert operators(after["main"]) == ["matmul", "multiply", "astype"]
    assert str(after["main"].ret_ty.dtype) == str(after["main"].body.body.ty.dtype) == "float16"


REJECTIONS: dict[str, Callable[[Net], Expr]] = {
    "weight has a zero point (expected 0, found 3)": lambda net: _weights(zero=3),
    "scale goes along the sum (expected 1, found 0)": lambda net: _weights(scale=np.ones(K), axis=0),
    "weight is no matrix of int8 (expected int8, 2 axes, found uint8, 2 axes)": lambda net: op.dequantize(
        relax.const(INTEGERS.astype(np.uint8)),
        relax.const(SCALES),
        relax.const(np.zeros(N, np.uint8)),
        axis=1,
    ),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_what_it_does_not_take(reason: str) -> None:
    assert str(rejection(_module(REJECTIONS[reason]), RULE)).partition(": ")[2] == reason
