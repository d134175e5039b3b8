# SPDX-License-Identifier: Apache-2.0
import doctest

import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter import patterns as language
from relay_passes.rewriter.patterns import any_of, constant, either_order, maybe, scalar
from tests.relay_passes.graphs import tensor

X, W = tensor("x", 3, 8), tensor("w", 8, 7)
BIASED = maybe(
    is_op("relax.matmul")(wildcard(), wildcard()),
    lambda value: is_op("relax.add")(value, is_const()),
    lambda value: is_op("relax.nn.relu")(value),
)


def matmul() -> Expr:
    return op.matmul(X, W)


def biased() -> Expr:
    return op.add(relax.const(np.ones(7, "float32")), matmul())


def test_the_examples_hold() -> None:
    result = doctest.testmod(language)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    "build",
    [matmul, biased, lambda: op.nn.relu(matmul()), lambda: op.nn.relu(biased())],
    ids=["neither", "first", "second", "both"],
)
def test_each_optional_step_is_there_or_not(build) -> None:
    assert BIASED.match(build())


def test_optional_steps_keep_their_order() -> None:
    late = op.add(op.nn.relu(matmul()), relax.const(np.ones(7, "float32")))
    assert not BIASED.match(late)
    assert not BIASED.match(op.nn.relu(X))


def test_the_longest_form_is_tried_first() -> None:
    first = is_op("relax.matmul")(wildcard(), wildcard())
    last = is_op("relax.nn.relu")(first)
    assert last in maybe(first, lambda _: last).extract_matched_expr(op.nn.relu(matmul()))


def test_alternatives() -> None:
    rounding = any_of(is_op("relax.floor"), is_op("relax.ceil"))(wildcard())
    assert rounding.match(op.floor(X))
    assert rounding.match(op.ceil(X))
    assert not rounding.match(op.round(X))


@pytest.mark.parametrize("swap", [False, True])
def test_operands_in_either_order(swap: bool) -> None:
    operands = (relax.const(0.0), X) if swap else (X, relax.const(0.0))
    lower = either_order(is_op("relax.maximum"), wildcard(), is_const())
    assert lower.match(op.maximum(*operands))
    assert not lower.match(op.maximum(X, X))
    assert not lower.match(op.minimum(*operands))


def test_a_constant_of_a_dtype_and_shape() -> None:
    value = relax.const(np.zeros((1, 7), "float32"))
    assert constant().match(value)
    assert constant("float32", (1, 7)).match(value)
    assert not constant("int8").match(value)
    assert not constant(shape=(7,)).match(value)
    assert not constant().match(X)


@pytest.mark.parametrize("rank", range(6))
def test_a_number_of_any_rank(rank: int) -> None:
    value = relax.const(np.full((1,) * rank, 0.1, "float32"))
    assert scalar(0.1).match(value)
    assert not scalar(0.2).match(value)
    assert not scalar(0.1, "float16").match(value)
    assert not scalar(0.1).match(relax.const(np.full(2, 0.1, "float32")))


def test_what_the_module_says_of_dpl_holds() -> None:
    x = wildcard()
    assert is_op("relax.add")(is_const(), x).match(op.add(X, relax.const(0.0)))
    assert not is_op("relax.subtract")(is_const(), x).match(op.subtract(X, relax.const(0.0)))
    same = is_op("relax.multiply")(x, is_op("relax.sigmoid")(x))
    assert same.match(op.multiply(X, op.sigmoid(X)))
    assert not same.match(op.multiply(X, op.sigmoid(tensor("y", 3, 8))))
    assert not is_op("relax.astype")(x).has_attr({"dtype": "float16"}).match(op.astype(X, "float16"))
