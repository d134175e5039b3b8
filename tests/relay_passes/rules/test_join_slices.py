# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm.relax import op

from relay_passes.rules.join_slices import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten

LAST = 2**31 - 1


def _joined(bounds: list[tuple[int, ...]], axis: int = 1, sliced: int = 1):
    """Slices (begin, end[, step]) of axis `sliced`, concatenated along `axis`."""

    def build(net, x):
        parts = [
            net.emit(f"slice{i}", op.strided_slice(x, [sliced], *([n] for n in bound)))
            for i, bound in enumerate(bounds)
        ]
        return net.emit("act", op.exp(net.emit("concat", op.concat(parts, axis=axis))))

    return graph(build, tensor("x", 2, 9, 3))


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, 4), (4, 9)],
        [(0, 4), (4, LAST)],
        [(-9, -7), (2, 3), (3, -1)],
        [(2, 4, 1), (4, 5), (5, 7, 1)],
        [(i, i + 1) for i in range(8)],
    ],
)
def test_adjacent_slices_are_one(bounds: list[tuple[int, ...]]) -> None:
    mod = _joined(bounds)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["strided_slice", "exp"]
    assert_equal(mod, after)


@pytest.mark.parametrize(
    ("bounds", "reason", "limit", "actual"),
    [
        ([(0, 4), (5, 9)], "slices are not adjacent", "4", "5"),
        ([(4, 9), (0, 4)], "slices are not adjacent", "9", "0"),
        ([(0, 4), (4, 9, 2)], "a slice is not of the concatenated axis in steps of 1", "1", "None"),
    ],
)
def test_near_misses_say_why(bounds: list[tuple[int, ...]], reason: str, limit: str, actual: str) -> None:
    found = rejection(_joined(bounds), RULE)
    assert (found.reason, found.limit, found.actual) == (reason, limit, actual)


def test_slices_of_another_axis_are_kept() -> None:
    found = rejection(_joined([(0, 4), (4, 8)], axis=0), RULE)
    assert (found.reason, found.limit) == ("a slice is not of the concatenated axis in steps of 1", "0")


def test_slices_of_two_values_do_not_match() -> None:
    def build(net, x, y):
        parts = [
            net.emit(f"slice{i}", op.strided_slice(v, [1], [4 * i], [4 * i + 4]))
            for i, v in enumerate([x, y])
        ]
        return net.emit("concat", op.concat(parts, axis=1))

    rewritten(graph(build, tensor("x", 2, 8), tensor("y", 2, 8)), RULE, times=0)
