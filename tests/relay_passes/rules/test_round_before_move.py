# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.rules.round_before_move import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, names, rejection, rewritten

MOVES: dict[str, Callable[[Expr], Expr]] = {
    "permute_dims": lambda x: op.permute_dims(x, [1, 0]),
    "reshape": lambda x: op.reshape(x, (9, 7)),
    "expand_dims": lambda x: op.expand_dims(x, 0),
    "flatten": op.flatten,
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_value_is_rounded_before_it_is_moved(name: str, dtype: str) -> None:
    def build(net, x):
        moved = net.emit("move", MOVES[name](x))
        # numpy has no bfloat16 to compare.
        return net.emit("back", op.astype(net.emit("cast", op.astype(moved, dtype)), "float32"))

    mod = graph(build, tensor("x", 7, 9))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["astype", name, "astype"]
    assert names(after)[:2] == [("move", "cast"), ("move", "cast")]
    assert_equal(mod, after)


def test_through_several_moves() -> None:
    def build(net, x):
        moved = net.emit("second", op.reshape(net.emit("first", op.permute_dims(x, [1, 0])), (63,)))
        return net.emit("cast", op.astype(moved, "float16"))

    after = rewritten(graph(build, tensor("x", 7, 9)), RULE, times=2)
    assert operators(after["main"]) == ["astype", "permute_dims", "reshape"]


def test_what_is_widened_is_moved_first() -> None:
    def build(net, x):
        return net.emit("cast", op.astype(net.emit("move", op.permute_dims(x, [1, 0])), "float32"))

    found = rejection(graph(build, tensor("x", 7, 9, dtype="float16")), RULE)
    assert (found.reason, found.actual) == ("the cast makes elements no smaller", "32")


def test_a_move_that_others_need_stays_before_the_cast() -> None:
    def build(net, x):
        moved = net.emit("move", op.permute_dims(x, [1, 0]))
        back = net.emit("back", op.astype(net.emit("cast", op.astype(moved, "float16")), "float32"))
        return net.emit("sum", op.add(moved, back))

    mod = graph(build, tensor("x", 7, 9))
    assert operators(rewritten(mod, RULE, times=0)["main"]) == ["permute_dims", "astype", "astype", "add"]
