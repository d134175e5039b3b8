# SPDX-License-Identifier: Apache-2.0
"""Minimum cut of a flow network: the assignment of nodes to two sides with the minimum cost (Dinic's algorithm)."""

from collections import deque
from collections.abc import Hashable

SOURCE, SINK = "source", "sink"

# Cost of an edge that is never cut, larger than any sum of tensor sizes.
NEVER = 1 << 62


class FlowNetwork:
    """A graph from SOURCE to SINK whose edges have costs; `source_side` finds its minimum cut."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._edges: list[list[int]] = []  # indices of the edges of each node; the reverse of edge e is e ^ 1
        self._head: list[int] = []
        self._left: list[int] = []

    def edge(self, tail: Hashable, head: Hashable, cost: int) -> None:
        """Add an edge, which costs `cost` if `tail` is on the source's side and `head` on the sink's side."""
        for node, other, capacity in ((tail, head, cost), (head, tail, 0)):
            self._edges[self._number(node)].append(len(self._head))
            self._head.append(self._number(other))
            self._left.append(capacity)

    def source_side(self) -> set[Hashable]:
        """Return the nodes on the source's side of the minimum cut; if there are several cuts, the smallest set."""
        source, sink = self._number(SOURCE), self._number(SINK)
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return {node for node, number in self._numbers.items() if levels[number] >= 0}
            used = [0] * len(levels)
            while self._push(source, sink, levels, used):
                pass

    def _number(self, node: Hashable) -> int:
        number = self._numbers.setdefault(node, len(self._numbers))
        if number == len(self._edges):
            self._edges.append([])
        return number

    def _levels(self, source: int) -> list[int]:
        levels = [-1] * len(self._edges)
        levels[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges[node]:
                if self._left[edge] and levels[self._head[edge]] < 0:
                    levels[self._head[edge]] = levels[node] + 1
                    waiting.append(self._head[edge])
        return levels

    def _push(self, source: int, sink: int, levels: list[int], used: list[int]) -> bool:
        """Send flow along another path; return False if there is none. `used` counts each node's exhausted edges."""
        path: list[int] = []
        node = source
        while node != sink:
            while used[node] < len(self._edges[node]):
                edge = self._edges[node][used[node]]
                if self._left[edge] and levels[self._head[edge]] == levels[node] + 1:
                    break
                used[node] += 1
            if used[node] < len(self._edges[node]):
                path.append(edge)
                node = self._head[edge]
            elif path:
                node = self._head[path.pop() ^ 1]
                used[node] += 1
            else:
                return False
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
        return True
