# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm.relax import op

from relay_passes.rules.resize_to_one import RULE
from tests.relay_passes.graphs import operators, run, tensor
from tests.relay_passes.rules.rewrites import graph, rejection, rewritten

ALIGNED = {"method": "linear", "coordinate_transformation_mode": "align_corners"}


@pytest.mark.parametrize(("layout", "shape"), [("NCHW", (2, 3, 7, 5)), ("NHWC", (2, 7, 5, 3))])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (4, 1)])
def test_the_only_pixel_is_the_first(layout: str, shape: tuple[int, ...], size: tuple[int, int]) -> None:
    mod = graph(
        lambda net, x: net.emit("y", op.image.resize2d(x, size, layout=layout, **ALIGNED)),
        tensor("x", *shape),
    )
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["image.resize2d", "strided_slice"]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = run(after, x)
    rows, columns = map(layout.index, "HW")
    np.testing.assert_array_equal(
        found.take([0], rows).take([0], columns), x.take([0], rows).take([0], columns)
    )
    assert [found.shape[axis] for axis in (rows, columns)] == list(size)


def test_other_sizes_and_coordinates_are_kept() -> None:
    def resized(size: tuple[int, int], mode: str):
        attributes = {"coordinate_transformation_mode": mode}
        return graph(
            lambda net, x: net.emit("y", op.image.resize2d(x, size, **attributes)), tensor("x", 1, 3, 5, 4)
        )

    assert rejection(resized((2, 3), "align_corners"), RULE).reason == "no axis of the result has one pixel"
    assert rejection(resized((1, 1), "half_pixel"), RULE).reason == "corners are not aligned"
