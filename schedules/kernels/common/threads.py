# SPDX-License-Identifier: Apache-2.0
"""Multithreading of kernels: whether a call is parallel, its number of tasks, and their distribution to threads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)
from tvm_ffi import structural_walk

from schedules.tir.emit import i64

Held = TypeVar("Held")
"""What tasks of a thread share."""

PARALLEL_CYCLES = 6_000
"""Calls below this many estimated cycles run on one thread: two threads gain less than a twelfth of them, four less
than a third. To give tasks to the runtime's threads and to wait for them takes two threads 0.8 us (an empty parallel
loop on an x86-64 machine, where as on Arm they look for work between calls), 2,400 cycles at 3 GHz."""

PARALLEL_TASKS = 32
"""Number of runs of consecutive tasks that a parallel call is divided into, if it has as many tasks: the runtime gives
each thread the same number of runs."""

FEW_TASKS = 8
"""Number of runs of a call with fewer tasks than `PARALLEL_TASKS`. Some runs may be empty; two, four and eight threads
still get even shares of the others."""

DIVIDED = "divided"
"""Attribute of a kernel's stub, which has no body: whether the runtime's threads divide a call of the kernel."""

SPREADS = {2: 0.1, 4: 0.1, 8: 0.3}
"""Number of threads → load imbalance (see `spread`) above which more tasks are made."""


def is_divided(func: tirx.PrimFunc) -> bool:
    """Whether the runtime's threads divide a call of a function."""
    if func.attrs and DIVIDED in func.attrs:
        return bool(func.attrs[DIVIDED])
    loops: list[tirx.For] = []
    structural_walk(func.body, [(tirx.For, loops.append)])
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in loops)


@contextmanager
def each_of(count: int, parallel: bool) -> Iterator[ir.Expr]:
    """Open a loop over `count` tasks; if parallel, threads execute runs of consecutive tasks."""
    if not parallel:
        with T.serial(i64(0), i64(count)) as index:
            yield index
        return
    runs = _runs(count)
    with T.parallel(i64(0), i64(runs)) as run:
        if runs == count:
            yield run
            return
        start, stop = part(run, count, runs)
        with T.serial(start, stop) as index:
            # Yield a copy of the loop variable: if a loop does not start at 0, TVM loses the variable in inner loops'
            # bounds.
            yield T.Bind(index)


def each_with(
    count: int, parallel: bool, begin: Callable[[], Held], task: Callable[[ir.Expr, Held], None]
) -> None:
    """Emit a loop over `count` tasks that need memory of their thread.

    Args:
        count: The number of tasks.
        parallel: Whether the runtime's threads share the tasks.
        begin: Emits allocations, once for each run of consecutive tasks: the runtime takes 200 instructions for each.
        task: Emits a task, given its index and what `begin` returned.
    """
    if not parallel:
        held = begin()
        each(count, False, lambda index: task(index, held))
        return
    runs = _runs(count)
    with T.parallel(i64(0), i64(runs)) as run:
        held, (start, stop) = begin(), part(run, count, runs)
        with T.serial(start, stop) as index:
            task(T.Bind(index), held)


def each(count: int, parallel: bool, task: Callable[[ir.Expr], None]) -> None:
    """Emit a loop over `count` tasks as in `each_of`; `task`(index) emits the body."""
    with each_of(count, parallel) as index:
        task(index)


def each_tile(count: int, size: int, parallel: bool, tile: Callable[[ir.Expr, int], None]) -> None:
    """Emit a loop over the tiles of `count` rows; a last tile with fewer than `size` rows has separate code.

    Args:
        count: The number of rows.
        size: Rows of a full tile.
        parallel: Whether the runtime's threads share the tiles.
        tile: Emits one tile, given its first row and its number of rows.
    """
    full, rest = divmod(count, size)

    def one(index: ir.Expr) -> None:
        if not rest:
            tile(T.Bind(index * size), size)
            return
        with T.If(index < full):
            with T.Then():
                tile(T.Bind(index * size), size)
            with T.Else():
                tile(i64(full * size), rest)

    each(full + (rest > 0), parallel, one)


def each_part(count: int, parts: int, parallel: bool, task: Callable[[ir.Expr, ir.Expr], None]) -> None:
    """Emit a loop over `count` items, each in `parts` equal parts; `task` gets the indices of item and part."""

    def one(index: ir.Expr) -> None:
        if parts == 1:
            task(index, i64(0))
        elif count == 1:
            task(i64(0), index)
        else:
            task(T.Bind(tirx.floordiv(index, parts)), T.Bind(tirx.floormod(index, parts)))

    each(count * parts, parallel, one)


def each_packed(
    count: int,
    parts: int,
    parallel: bool,
    pack: Callable[[ir.Expr, ir.Expr], None],
    work: Callable[[ir.Expr, ir.Expr, ir.Expr], None],
) -> None:
    """Emit packing and computation of `count` items; if parallel, all items are packed first, then computed in parts.

    Args:
        count: Number of items.
        parts: Number of parts of the work on one item.
        parallel: Whether threads share the work; else the items are packed and computed one after the other.
        pack: Emits the packing of (item, index of the item's buffer); there are `count` buffers if parallel, else one.
        work: Emits the computation of (item, index of the item's buffer, part).
    """
    if parallel:
        each(count, count > 1, lambda index: pack(index, index))
        each_part(count, parts, True, lambda index, part: work(index, index, part))
        return
    with T.serial(i64(0), i64(count)) as index:
        pack(index, i64(0))
        work(index, i64(0), i64(0))


def part(index: ir.Expr, count: int, parts: int) -> tuple[ir.Expr, ir.Expr]:
    """Return the start and end of part `index`, if `count` items are divided into `parts` equal parts."""
    if count == parts:
        return index, index + 1
    return tirx.floordiv(index * count, parts), tirx.floordiv((index + 1) * count, parts)


def part_sizes(size: int, step: int, parts: int) -> list[int]:
    """Return the sizes of the parts of an axis of `size`, multiples of `step`; the last one includes the remainder."""
    steps, rest = divmod(size, step)
    sizes = [((index + 1) * steps // parts - index * steps // parts) * step for index in range(parts)]
    sizes[-1] += rest
    return sizes


def spread(sizes: npt.ArrayLike, threads: int) -> float:
    """Return the load imbalance of tasks of these sizes: 1 - (least loaded thread) / (most loaded thread)."""
    return _spread(np.concatenate([[0.0], np.cumsum(sizes)]), threads)


def _spread(total: npt.NDArray[Any], threads: int) -> float:
    """Return the load imbalance of tasks, whose sizes are given as prefix sums starting with 0."""
    count = len(total) - 1
    runs = _runs(count)
    # The runtime gives `chunk` runs to each thread, and the remaining ones to the last.
    chunk = -(-runs // threads)
    ends = [float(total[min(runs, thread * chunk) * count // runs]) for thread in range(threads + 1)]
    loads = [end - start for start, end in pairwise(ends)]
    return 1 - min(loads) / max(loads)


def fewest(options: Iterable[int], sizes: Callable[[int], npt.ArrayLike]) -> int:
    """Return the first option whose load imbalance is within `SPREADS`, or else the one with the minimum imbalance.

    Args:
        options: Numbers that decide how many tasks there are, fewest tasks first.
        sizes: Returns the sizes of an option's tasks, in order.
    """
    best, least = 0, float("inf")
    for option in options:
        total = np.concatenate([[0.0], np.cumsum(sizes(option))])
        worst = max(_spread(total, threads) / limit for threads, limit in SPREADS.items())
        if worst <= 1:
            return option
        if worst < least:
            best, least = option, worst
    return best


def parts_of(item_sizes: Sequence[float], steps: int) -> int:
    """Return into how many parts to split an axis so that the tasks, one part for one item each, are balanced.

    Args:
        item_sizes: Size of each item, such as a panel or a group. Consecutive tasks compute one part for all items, so
            that few or uneven items cause little imbalance.
        steps: Length of the axis, which is the same for all items.
    """
    return fewest(
        range(1, steps + 1), lambda parts: np.outer(part_sizes(steps, 1, parts), item_sizes).ravel()
    )


def block_tiles(rows: int, tile: int, panels: Sequence[float], most: int) -> int:
    """Return the number of row tiles per task that balances threads, where a task is a block of rows by one panel.

    Args:
        rows: Number of rows of the matrix; the last block includes the rows after the last full tile.
        tile: Rows of a tile.
        panels: Width of each panel, which makes tasks of one block differ in size.
        most: Maximum number of tiles in a block.
    """
    tiles = max(1, rows // tile)

    def sizes(block: int) -> npt.NDArray[Any]:
        blocks = -(-tiles // block)
        of_rows = [block * tile] * (blocks - 1) + [rows - block * tile * (blocks - 1)]
        return np.outer(of_rows, panels).ravel()

    least = -(-tiles // max(1, min(most, tiles)))
    return fewest(
        dict.fromkeys(-(-tiles // blocks) for blocks in range(least, least + PARALLEL_TASKS)), sizes
    )


def _runs(count: int) -> int:
    return PARALLEL_TASKS if count >= PARALLEL_TASKS else FEW_TASKS
