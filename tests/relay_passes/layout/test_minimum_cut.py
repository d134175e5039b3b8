# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest

from relay_passes.layout.minimum_cut import NEVER, SINK, SOURCE, FlowNetwork

Edge = tuple[object, object, int]


def cut_of(edges: list[Edge]) -> set[object]:
    cut = FlowNetwork()
    for edge in edges:
        cut.edge(*edge)
    return cut.source_side()


def cost(edges: list[Edge], side: set[object]) -> int:
    return sum(price for tail, head, price in edges if tail in side and head not in side)


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_cheaper(seed: int):
    rng = np.random.default_rng(seed)
    inner = list(range(int(rng.integers(4, 9))))
    nodes = [SOURCE, *inner, SINK]
    edges: list[Edge] = []
    for _ in range(2 * len(nodes)):
        tail, head = (nodes[int(i)] for i in rng.choice(len(nodes), 2, replace=False))
        edges.append((tail, head, int(rng.integers(0, 9))))
    side = cut_of([(SOURCE, SINK, 1), *edges])
    best = min(
        cost(edges, {SOURCE, *(n for n, there in zip(inner, sides, strict=True) if there)})
        for sides in itertools.product((True, False), repeat=len(inner))
    )
    assert cost(edges, side) == best
    assert SINK not in side


def test_what_was_sent_is_taken_back_where_another_needs_the_way():
    edges = [("a", "d", 3), ("a", "c", 2), ("b", "d", 1), ("c", SINK, 2), (SOURCE, "a", 2), ("b", "c", 3)]
    assert cut_of([*edges, (SOURCE, "b", 2)]) == {SOURCE, "a", "b", "c", "d"}


def test_an_edge_that_is_never_cut_keeps_its_ends_together():
    assert cut_of([(SOURCE, "a", 5), ("a", "b", NEVER), ("b", SINK, 9)]) == {SOURCE}
    assert cut_of([(SOURCE, "a", 9), ("a", "b", NEVER), ("b", SINK, 5)]) == {SOURCE, "a", "b"}


def test_of_equal_cuts_the_one_next_to_the_source():
    assert cut_of([(SOURCE, "a", 5), ("a", "b", 5), ("b", SINK, 5)]) == {SOURCE}
