# SPDX-License-Identifier: Apache-2.0
from itertools import permutations

import pytest
from tvm.relax import op

from relay_passes.rewriter.engine import explain
from relay_passes.rules.merge_transposes import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, names, rewritten


def _pair(first: list[int] | None, second: list[int] | None, *shape: int):
    def build(net, x):
        y = net.emit("second", op.permute_dims(net.emit("first", op.permute_dims(x, first)), second))
        return net.emit("act", op.nn.relu(y))

    return graph(build, tensor("x", *shape))


@pytest.mark.parametrize("first", [[1, 2, 0], [2, 0, 1], [0, 2, 1]])
@pytest.mark.parametrize("second", [*map(list, permutations(range(3))), None, [-1, 0, 1]])
def test_two_transposes_are_one(first: list[int], second: list[int] | None) -> None:
    mod = _pair(first, second, 7, 8, 9)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["permute_dims", "nn.relu"]
    assert names(after)[0] == ("first", "second")
    if second in ([1, 0, 2], None):
        assert_equal(mod, after)


def test_the_inner_one_may_have_other_consumers() -> None:
    def build(net, x):
        first = net.emit("first", op.permute_dims(x, [0, 2, 3, 1]))
        left = net.emit("left", op.permute_dims(first, [0, 3, 1, 2]))
        right = net.emit("right", op.permute_dims(net.emit("act", op.nn.relu(first)), [0, 3, 1, 2]))
        return net.emit("sum", op.add(left, right))

    mod = graph(build, tensor("x", 1, 3, 9, 7))
    after = rewritten(mod, RULE)
    assert operators(after["main"]).count("permute_dims") == 3
    assert_equal(mod, after)


def test_a_transpose_of_something_else_is_a_near_miss() -> None:
    def build(net, x):
        first = net.emit("first", op.permute_dims(x, [1, 0]))
        return net.emit("second", op.permute_dims(net.emit("act", op.nn.relu(first)), [1, 0]))

    explanation = explain(graph(build, tensor("x", 7, 9)), RULE)
    assert (explanation.applied, explanation.rejected) == ((), ())
