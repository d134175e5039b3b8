# SPDX-License-Identifier: Apache-2.0
"""Innermost loops of assembly, found by what branches to what: however they end, and with forks inside."""

import re
from collections.abc import Iterator, Sequence

BRANCH = re.compile(r"(?:b(?:\.\w+)?|[ct]bn?z) (?:.*, )?(\.L\w+)$")
END = re.compile(r"(?:b|br|ret|brk)\b(?!\.)")  # nothing goes on below it


def loops(asm: str) -> list[list[str]]:
    """Instructions of every loop that holds no other, in the order of their addresses."""
    blocks, labels = _blocks(asm)
    after = [_successors(block, index, labels) for index, block in enumerate(blocks)]
    bodies = {_body(latch, header, after) for latch, header in _back_edges(after)}
    inner = [body for body in bodies if not any(other < body for other in bodies)]
    return [[line for index in sorted(body) for line in blocks[index]] for body in sorted(inner, key=min)]


def _blocks(asm: str) -> tuple[list[list[str]], dict[str, int]]:
    """Straight pieces of code, and by label which of them follows it."""
    blocks: list[list[str]] = [[]]
    labels = {}
    for line in (line.strip().replace("\t", " ") for line in asm.splitlines()):
        if line.endswith(":") and not line.startswith(("//", ".Ltmp")):
            blocks += [[]] if blocks[-1] else []
            labels[line[:-1]] = len(blocks) - 1
        elif line and not line.startswith((".", "//")):
            blocks[-1].append(line)
            if BRANCH.match(line) or END.match(line):
                blocks.append([])
    return blocks, labels


def _successors(block: Sequence[str], index: int, labels: dict[str, int]) -> list[int]:
    last = block[-1] if block else ""
    branch = BRANCH.match(last)
    below = [] if not block or END.match(last) else [index + 1]
    return below + ([labels[branch[1]]] if branch else [])


def _back_edges(after: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """(last block, first block) of each loop: edges to where a walk in depth is still at."""
    seen: set[int] = set()
    for root in range(len(after)):
        path = [] if root in seen else [root]
        turns = [iter(after[root])]
        seen.add(root)
        while path:
            block = next(turns[-1], None)
            if block is None:
                path.pop(), turns.pop()
            elif block in path:
                yield path[-1], block
            elif block not in seen:
                seen.add(block)
                path.append(block)
                turns.append(iter(after[block]))


def _body(latch: int, header: int, after: Sequence[Sequence[int]]) -> frozenset[int]:
    """The blocks of a loop: those that reach its last one without its first."""
    body, work = {header, latch}, [latch]
    while work:
        block = work.pop()
        if block != header:
            more = {index for index, to in enumerate(after) if block in to} - body
            body |= more
            work += more
    return frozenset(body)
