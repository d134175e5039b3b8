# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm.relax import op

from relay_passes.rules.cancel_negations import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten


@pytest.mark.parametrize(
    ("negation", "use", "dtype"),
    [
        (op.negative, op.add, "float32"),
        (op.bitwise_not, op.add, "int32"),
        (op.logical_not, op.logical_and, "bool"),
    ],
)
def test_two_negations_cancel(negation, use, dtype: str) -> None:
    def build(net, x):
        return net.emit("use", use(net.emit("b", negation(net.emit("a", negation(x)))), x))

    mod = graph(build, tensor("x", 31, dtype=dtype))
    after = rewritten(mod, RULE)
    assert len(operators(after["main"])) == 1
    assert_equal(mod, after)


def test_the_first_may_have_other_consumers() -> None:
    def build(net, x):
        first = net.emit("a", op.negative(x))
        return net.emit("sum", op.add(net.emit("e", op.exp(first)), net.emit("b", op.negative(first))))

    mod = graph(build, tensor("x", 31))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["negative", "exp", "add"]
    assert_equal(mod, after)


def test_negations_of_two_kinds_are_kept() -> None:
    mod = graph(
        lambda net, x: net.emit("b", op.negative(net.emit("a", op.bitwise_not(x)))),
        tensor("x", 7, dtype="int32"),
    )
    found = rejection(mod, RULE)
    assert (found.reason, found.limit, found.actual) == (
        "the two negations are different operators",
        "relax.negative",
        "relax.bitwise_not",
    )
