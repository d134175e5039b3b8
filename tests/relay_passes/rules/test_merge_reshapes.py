# SPDX-License-Identifier: Apache-2.0
from tvm import relax
from tvm.relax import op
from tvm.tirx import Var

from relay_passes.rules.merge_reshapes import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, names, rejection, rewritten


def test_a_chain_of_reshapes_is_one() -> None:
    def build(net, x):
        y = net.emit("a", op.reshape(x, (63, 2)))
        y = net.emit("b", op.reshape(y, (9, 14)))
        return net.emit("act", op.exp(net.emit("c", op.reshape(y, (2, 63)))))

    mod = graph(build, tensor("x", 2, 7, 9))
    after = rewritten(mod, RULE, times=3)
    assert operators(after["main"]) == ["reshape", "exp"]
    assert names(after)[0] == ("a", "b", "c")
    assert_equal(mod, after)


def test_the_inner_one_may_have_other_consumers() -> None:
    def build(net, x):
        y = net.emit("a", op.reshape(x, (63, 2)))
        z = net.emit("b", op.reshape(net.emit("act", op.exp(y)), (126,)))
        return net.emit("sum", op.add(net.emit("c", op.reshape(y, (126,))), z))

    mod = graph(build, tensor("x", 2, 7, 9))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["reshape", "exp", "reshape", "reshape", "add"]
    assert_equal(mod, after)


def test_a_shape_that_is_not_static_is_kept() -> None:
    n = Var("n", "int64")
    x = relax.Var("x", relax.TensorType([2, n], "float32"))

    def build(net, x):
        return net.emit("b", op.reshape(net.emit("a", op.reshape(x, (n, 2))), (2 * n,)))

    assert rejection(graph(build, x), RULE).reason == "shape is not static"
