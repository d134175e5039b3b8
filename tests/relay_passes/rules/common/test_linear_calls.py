# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax

from relay_passes.rules.common.linear_calls import Channels, channels_of, is_per_channel, response
from tests.relay_passes.graphs import run
from tests.relay_passes.rules.anchor_cases import ANCHORS, CONVOLUTIONS, PRODUCTS, AnchorCase
from tests.relay_passes.rules.rewrites import graph


def _call(case: AnchorCase, weight: np.ndarray, **attrs: object) -> tuple[relax.Call, np.ndarray]:
    """The anchor on one number an input channel, 1, 2, …, and what it computes."""
    mod = graph(lambda net, x: net.emit("anchor", case.call(x, relax.const(weight), **attrs)), case.x)
    shifts = np.arange(1, np.prod(case.inputs) + 1, dtype="float32").reshape(case.inputs)
    value = run(mod, np.ascontiguousarray(np.broadcast_to(shifts, case.data)))
    return mod["main"].body.blocks[0].bindings[0].value, value


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *PRODUCTS])
def test_the_response_to_constant_channels_is_that_of_the_call(name: str) -> None:
    case = ANCHORS[name]
    weight = np.random.default_rng(1).integers(-9, 10, case.weight).astype("float32")
    call, value = _call(case, weight, **({"padding": 0} if name in CONVOLUTIONS else {}))
    at = channels_of(call)
    shifts = np.arange(1, at.inputs + 1, dtype="float32")
    expected = np.moveaxis(value, at.output_axis, -1).reshape(-1, at.outputs)
    # Small integers: every sum is exact.
    np.testing.assert_array_equal(expected, np.broadcast_to(response(call, weight, shifts), expected.shape))


@pytest.mark.parametrize(
    ("name", "channels"),
    {
        "conv2d, groups, HWIO": Channels(3, 3, 4, 2, 3, 6, 8, 2),
        "conv2d, NHWC, OHWI": Channels(3, 3, 4, 3, 0, 6, 8, 1),
        "depthwise": Channels(1, 1, 4, 1, 0, 8, 8, 8),
        "conv2d_transpose, groups": Channels(1, 1, 4, 0, 1, 6, 8, 2),
        "matmul, batches of weights": Channels(2, 2, 3, 1, 2, 6, 8, 1),
        "matmul, a vector": Channels(0, 0, 1, 0, 1, 6, 8, 1),
    }.items(),
)
def test_where_channels_are(name: str, channels: Channels) -> None:
    case = ANCHORS[name]
    mod = graph(lambda net, x: case.emit(net, x), case.x)
    assert channels_of(mod["main"].body.blocks[0].bindings[0].value) == channels


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((), True),
        ((1,), True),
        ((8, 1, 1), True),
        ((1, 8, 1, 1), True),
        ((8,), False),
        ((1, 8, 1), False),
        ((7, 1, 1), False),
        ((1, 8, 9, 1), False),
        ((1, 1, 8, 1, 1), False),
    ],
)
def test_one_number_a_channel(shape: tuple[int, ...], fits: bool) -> None:
    assert is_per_channel(np.ones(shape), axis=1, ndim=4, channels=8) == fits
