# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm import relax
from tvm.relax import op
from tvm.tirx import Var

from relay_passes.rules.reshape_form import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten

X = tensor("x", 1, 7, 1, 9)

FORMS = {
    "squeeze": lambda x: op.squeeze(x, [0, 2]),
    "squeeze all": lambda x: op.squeeze(x),
    "expand_dims": lambda x: op.expand_dims(x, [0, -1]),
    "flatten": lambda x: op.flatten(x),
    "transpose of short axes": lambda x: op.permute_dims(x, [1, 0, 3, 2]),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_written_as_a_reshape(form: str) -> None:
    mod = graph(lambda net, x: net.emit("act", op.exp(net.emit("y", FORMS[form](x)))), X)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["reshape", "exp"]
    assert_equal(mod, after)


def test_down_to_a_scalar() -> None:
    mod = graph(lambda net, x: net.emit("act", op.exp(net.emit("y", op.squeeze(x)))), tensor("x", 1, 1))
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["reshape", "exp"]
    assert_equal(mod, after)


def test_a_transpose_of_long_axes_is_kept() -> None:
    found = rejection(graph(lambda net, x: net.emit("y", op.permute_dims(x, [0, 3, 2, 1])), X), RULE)
    assert (found.reason, found.actual) == ("axes longer than 1 change places", "[3, 1]")


def test_a_shape_that_is_not_static_is_kept() -> None:
    x = relax.Var("x", relax.TensorType([1, Var("n", "int64")], "float32"))
    found = rejection(graph(lambda net, x: net.emit("y", op.squeeze(x, [0])), x), RULE)
    assert found.reason == "shape is not static"
