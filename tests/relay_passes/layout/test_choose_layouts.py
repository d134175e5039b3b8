# SPDX-License-Identifier: Apache-2.0
"""Where the transposes that must be are put: where fewest bytes are moved."""

import numpy as np
from tvm import relax
from tvm.relax import op

from relay_passes import to_nhwc
from tests.relay_passes.graphs import operators
from tests.relay_passes.layout.nets import Body, net

SCALE, ZERO = relax.const(np.float32(0.1)), relax.const(np.int8(3))


def order(body: Body, *shape: int) -> list[str]:
    return operators(to_nhwc(net(body, *([shape] if shape else [])))[0]["main"])


def test_before_what_enlarges():
    names = order(lambda n, x: n.then(op.image.resize2d(n.conv(x, 8), (18, 14), layout="NCHW")))
    assert names == ["permute_dims", "nn.conv2d", "permute_dims", "image.resize2d"]


def test_behind_what_shrinks():
    names = order(lambda n, x: n.then(op.nn.max_pool2d(n.conv(x, 8), (2, 2), (2, 2))))
    assert names == ["permute_dims", "nn.conv2d", "nn.max_pool2d", "permute_dims"]


def test_of_integers_rather_than_of_floats():
    names = order(
        lambda n, x: n.conv(n.then(op.dequantize(n.then(op.quantize(x, SCALE, ZERO)), SCALE, ZERO)), 8)
    )
    assert names == ["quantize", "permute_dims", "dequantize", "nn.conv2d", "permute_dims"]


def test_of_integers_even_where_nothing_moves():
    names = order(
        lambda n, x: n.conv(n.then(op.dequantize(n.then(op.quantize(x, SCALE, ZERO)), SCALE, ZERO)), 1),
        *(1, 1, 9, 7),
    )
    assert names == ["quantize", "reshape", "dequantize", "nn.conv2d", "reshape"]


def test_not_around_what_is_between_two_that_stay():
    # What has no channels-last form stays; so does what it shares with the output.
    names = order(lambda n, x: n.then(op.nn.relu(n.then(op.flip(n.conv(x, 8), 2)))))
    assert names == ["permute_dims", "nn.conv2d", "permute_dims", "flip", "nn.relu"]


def test_a_transpose_of_the_model_is_the_one_that_is_needed():
    names = order(lambda n, x: n.conv(n.then(op.permute_dims(x, [0, 3, 1, 2])), 5), 1, 9, 7, 8)
    assert names == ["nn.conv2d", "permute_dims"]
    names = order(lambda n, x: n.then(op.permute_dims(n.conv(x, 5), [0, 2, 3, 1])))
    assert names == ["permute_dims", "nn.conv2d"]
