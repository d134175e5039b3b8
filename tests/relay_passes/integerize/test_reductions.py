# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest
from tvm.relax import op

from schedules.numerics.qdq import multiplier, requantize
from tests.fuzz import integer_ops
from tests.relay_passes.integerize.qdq import Array, Body, Input, centred, computed, refused
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, ODD_POWER, UNSIGNED, WIDE, Per

# Averages of a few values: a step of half the input's ends in ties.
OUT = Per(2.0**-5, 7, "int8")


def check(body: Body, x: Input, sums: Array, count: Any, y: Per | None = None) -> None:
    """The group equals the definition applied to sums of centred integers, and what they are divided by."""
    if y is None:
        y = OUT if x.per is ODD_POWER else Per(x.per.scale / 2, x.per.zero_point, x.per.dtype)
    actual, _ = computed(body, [x], y)
    expected = requantize(sums, multiplier(x.per.scale, 1.0, y.scale, count), y.zero_point, y.dtype)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("per", [ODD_POWER, DECIMAL, UNSIGNED, WIDE], ids=str)
@pytest.mark.parametrize(("axes", "keepdims"), [([2, 3], True), ([-1], False), (None, False)])
def test_mean(per: Per, axes: list[int] | None, keepdims: bool):
    x = Input((2, 3, 7, 9), per)
    v = centred(x.values(0), per.zero_point)
    along = tuple(range(4)) if axes is None else tuple(axes)
    n = np.prod([v.shape[axis] for axis in along])
    check(lambda _g, real: op.mean(real, axes, keepdims), x, v.sum(along, keepdims=keepdims), n)


def test_sum():
    x = Input((8, 7), BELOW_POWER)
    v = centred(x.values(0), x.per.zero_point)
    check(lambda _g, real: op.sum(real, [1]), x, v.sum(1), 1, Per(BELOW_POWER.scale * 8, 7, "int8"))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("per", [ODD_POWER, UNSIGNED], ids=str)
def test_global_pool(layout: str, per: Per):
    x = Input((1, 31, 7, 7) if layout == "NCHW" else (1, 7, 7, 31), per)
    axes = (2, 3) if layout == "NCHW" else (1, 2)
    sums = centred(x.values(0), per.zero_point).sum(axes, keepdims=True)
    check(lambda _g, real: op.nn.adaptive_avg_pool2d(real, 1, layout=layout), x, sums, 49)


POOLS = {
    "plain": {"kernel_shape": (3, 2), "strides": (2, 1)},
    "padded, borders counted less": {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)},
    "padded, borders counted whole": {"kernel_shape": (3, 3), "pads": (1, 0, 1, 2), "count_include_pad": 1},
    "one": {"kernel_shape": (1, 1)},
}


@pytest.mark.each_once
@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("per", [ODD_POWER, UNSIGNED], ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_average_pool(case: str, per: Per, layout: str):
    a: dict[str, Any] = POOLS[case]
    x = Input((1, 7, 9, 8) if layout == "NCHW" else (1, 9, 8, 7), per)
    v = centred(x.values(0), per.zero_point)
    images = v if layout == "NCHW" else v.transpose(0, 3, 1, 2)
    results = integer_ops.window_sums(images, a)
    sums, count = results if layout == "NCHW" else (part.transpose(0, 2, 3, 1) for part in results)
    check(
        lambda _g, real: op.nn.avg_pool2d(
            real,
            a["kernel_shape"],
            a.get("strides", (1, 1)),
            a.get("pads", (0, 0, 0, 0)),
            count_include_pad=bool(a.get("count_include_pad", 0)),
            layout=layout,
        ),
        x,
        sums,
        count,
    )


def test_average_pool_whose_last_windows_reach_beyond_the_tensor():
    x = Input((1, 2, 8, 8), DECIMAL)
    v = centred(x.values(0), x.per.zero_point)
    # Four windows of 3 with a stride of 2 need 9 values.
    padded = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (0, 0, 1, 1)}
    sums, count = integer_ops.window_sums(v, padded)
    check(
        lambda _g, real: op.nn.avg_pool2d(real, (3, 3), (2, 2), ceil_mode=True, count_include_pad=False),
        x,
        sums,
        count,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda _g, x: op.nn.adaptive_avg_pool2d(x, 2),
            "an adaptive pool has windows of several sizes (expected [1, 1], found [2, 2])",
        ),
        (lambda g, x: op.mean(g.emit("sin", op.sin(x)), [1]), "its input is not quantised"),
    ],
)
def test_refusals_say_why(body: Body, reason: str):
    left = refused(body, [Input((1, 3, 7, 7), DECIMAL)], OUT)
    assert any(str(call).endswith(reason) for call in left), left
