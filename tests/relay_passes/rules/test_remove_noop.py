# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.remove_noop import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten

X = tensor("x", 1, 7, 9)

NOOPS = {
    "cast": lambda x: op.astype(x, "float32"),
    "reshape": lambda x: op.reshape(x, (1, 7, 9)),
    "squeeze": lambda x: op.squeeze(x, []),
    "broadcast": lambda x: op.broadcast_to(x, (1, 7, 9)),
    "tile": lambda x: op.tile(x, (1, 1, 1)),
    "repeat": lambda x: op.repeat(x, 1, 1),
    "permute_dims": lambda x: op.permute_dims(x, [0, 1, -1]),
    "slice": lambda x: op.strided_slice(x, [1, 2], [0, 0], [7, 9]),
    "slice with steps": lambda x: op.strided_slice(x, [-1], [-9], [2**31 - 1], [1]),
    "concat": lambda x: op.concat([x], axis=1),
}


@pytest.mark.parametrize("form", NOOPS)
def test_what_does_nothing_goes_and_values_stay(form: str) -> None:
    mod = graph(lambda net, x: net.emit("act", op.exp(net.emit("y", NOOPS[form](x)))), X)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["exp"]
    assert_equal(mod, after)


IMAGE = tensor("x", 1, 5, 4, 3)
WHOLE = {"layout": "NHWC", "method": "linear", "coordinate_transformation_mode": "align_corners"}


def test_a_resize_to_its_own_size_goes() -> None:
    mod = graph(lambda net, x: net.emit("act", op.exp(op.image.resize2d(x, (5, 4), **WHOLE))), IMAGE)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["exp"]
    assert_equal(mod, after)


def test_a_resize_that_shifts_is_kept() -> None:
    shifting = {"layout": "NHWC", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    resized = graph(lambda net, x: net.emit("y", op.image.resize2d(x, (5, 4), **shifting)), IMAGE)
    found = rejection(resized, RULE)
    assert (found.reason, found.actual) == ("its coordinates shift the image", "tf_half_pixel_for_nn")


def test_dropout_goes() -> None:
    def build(net, x):
        dropped = net.bb.emit(relax.TupleGetItem(net.emit("drop", op.nn.dropout(x, 0.5)), 0))
        return net.emit("act", op.exp(dropped))

    mod = graph(build, X)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["exp"]
    # Upstream has no kernel for dropout: what remains is to be exp alone.
    assert after["main"].body.blocks[0].bindings[0].value.args[0].same_as(after["main"].params[0])


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda x: op.astype(x, "float16"), "the result's type is not the input's"),
        (lambda x: op.reshape(x, (7, 9)), "the result's type is not the input's"),
        (lambda x: op.strided_slice(x, [2], [1], [9]), "the result's type is not the input's"),
        (lambda x: op.strided_slice(x, [2], [0], [9], [2]), "the result's type is not the input's"),
        (lambda x: op.permute_dims(x), "the result's type is not the input's"),
    ],
)
def test_near_misses_say_why(build, reason: str) -> None:
    assert rejection(graph(lambda net, x: net.emit("y", build(x)), X), RULE).reason == reason


def test_a_transpose_of_a_square_is_kept() -> None:
    found = rejection(
        graph(lambda net, x: net.emit("y", op.permute_dims(x, [0, 2, 1])), tensor("x", 1, 7, 7)), RULE
    )
    assert (found.reason, found.actual) == ("axes change places", "[0, 2, 1]")


def test_a_reversal_is_kept() -> None:
    mod = graph(lambda net, x: net.emit("y", op.strided_slice(x, [2], [-1], [-10], [-1])), X)
    found = rejection(mod, RULE)
    assert (found.reason, found.limit, found.actual) == ("the slice runs backwards", "1", "-1")
