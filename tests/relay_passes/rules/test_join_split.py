# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.join_split import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten


def _joined(parts: list[int], sections: int | list[int], axes: tuple[int, int], *shape: int):
    def build(net, x):
        split = net.emit("split", op.split(x, sections, axis=axes[0]))
        items = [net.bb.emit(relax.TupleGetItem(split, part)) for part in parts]
        return net.emit("act", op.exp(net.emit("concat", op.concat(items, axis=axes[1]))))

    return graph(build, tensor("x", *shape))


@pytest.mark.parametrize(("sections", "count"), [(2, 2), ([1, 3, 4], 4), (8, 8)])
def test_all_parts_in_order_are_the_whole(sections: int | list[int], count: int) -> None:
    mod = _joined(list(range(count)), sections, (1, -2), 2, 8, 3)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["exp"]
    assert_equal(mod, after)


def test_parts_along_another_axis_are_kept() -> None:
    found = rejection(_joined([0, 1], 2, (0, 1), 2, 8), RULE)
    assert (found.reason, found.limit, found.actual) == (
        "split and concatenation are along different axes",
        "0",
        "1",
    )


def test_parts_that_are_not_all_are_kept() -> None:
    assert rejection(_joined([0, 1], 4, (1, 1), 2, 8), RULE).reason == "parts are missing"


def test_parts_in_another_order_do_not_match() -> None:
    rewritten(_joined([1, 0], 2, (1, 1), 2, 8), RULE, times=0)


def test_parts_that_something_else_needs_are_a_near_miss() -> None:
    def build(net, x):
        split = net.emit("split", op.split(x, 2, axis=1))
        items = [net.bb.emit(relax.TupleGetItem(split, part)) for part in (0, 1)]
        left = net.emit("left", op.exp(items[0]))
        return net.emit("sum", op.concat([net.emit("concat", op.concat(items, axis=1)), left], axis=1))

    assert "is also needed by" in rejection(graph(build, tensor("x", 2, 8)), RULE).reason
