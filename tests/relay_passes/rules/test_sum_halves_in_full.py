# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes import fuse
from relay_passes.ir.sources import relax_functions
from relay_passes.rules.sum_halves_in_full import RULE
from schedules.composites.vocabulary import VOCABULARY
from tests.relay_passes.graphs import Net, operators, run, tensor
from tests.relay_passes.rules.rewrites import graph, rejection, rewritten

# More ones than binary16 can count up to, and a number that it has.
COUNT = 4100


def _ones(*shape: int) -> Expr:
    return relax.const(np.ones(shape, np.float16))


PRODUCTS: dict[str, tuple[tuple[int, ...], Callable[[Expr], Expr]]] = {
    "matmul": ((1, COUNT), lambda x: op.matmul(x, _ones(COUNT, 3))),
    "conv1d": ((1, COUNT, 2), lambda x: op.nn.conv1d(x, _ones(3, COUNT, 1))),
    "conv2d": ((1, COUNT, 2, 1), lambda x: op.nn.conv2d(x, _ones(3, COUNT, 1, 1))),
    "conv2d_transpose": ((1, COUNT, 2, 1), lambda x: op.nn.conv2d_transpose(x, _ones(COUNT, 3, 1, 1))),
}


def _product(shape: tuple[int, ...], product: Callable[[Expr], Expr]) -> tvm.IRModule:
    return graph(lambda net, x: net.emit("product", product(x)), tensor("x", *shape, dtype="float16"))


@pytest.mark.parametrize("name", PRODUCTS)
def test_long_sums_of_halves_lose_nothing(name: str) -> None:
    shape, product = PRODUCTS[name]
    after = rewritten(_product(shape, product), RULE)
    assert operators(after["main"])[-1] == "astype"
    result = run(after, np.ones(shape, np.float16))
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, np.full(result.shape, COUNT))


def test_product_and_bias_are_one_composite_of_halves() -> None:
    def build(net: Net, x: Expr) -> Expr:
        return net.emit("bias", op.add(net.emit("fc", op.matmul(x, _ones(9, 7))), _ones(7)))

    mod = rewritten(graph(build, tensor("x", 3, 9, dtype="float16")), RULE)
    composites = [f for _, f in relax_functions(fuse(mod, VOCABULARY)) if f.attrs and "Composite" in f.attrs]
    assert [str(f.attrs["Composite"]) for f in composites] == ["arm.linear_f16"]
    assert operators(composites[0]) == ["matmul", "astype", "add"]


REJECTIONS: dict[str, Callable[[Expr], Expr]] = {
    "both operands are computed at run time": lambda x: op.matmul(x, x),
    "an operand or the result is not float16 (expected float16, found float16, float16, float32)": lambda x: (
        op.matmul(x, _ones(3, 3), out_dtype="float32")
    ),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_near_misses_say_why(reason: str) -> None:
    assert str(rejection(_product((3, 3), REJECTIONS[reason]), RULE)).endswith(reason)
