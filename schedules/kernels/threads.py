# SPDX-License-Identifier: Apache-2.0
"""When a call is spread over the runtime's threads, and into how many tasks."""

PARALLEL_CYCLES = 50_000
"""Calls below this many estimated cycles run on one thread: waking the pool takes about 10 us, which is half of them
at 2.5 GHz. Assumed, not measured."""

PARALLEL_TASKS = 32
"""Tasks of a parallel call, where there is work enough: the runtime gives each thread a run of them, and four threads
then differ by an eighth at most."""


def column_blocks(row_tiles: int, column_tiles: int) -> int:
    """Into how many blocks the columns are cut, so that with the tiles of rows there are `PARALLEL_TASKS` tasks."""
    return min(column_tiles, -(-PARALLEL_TASKS // row_tiles))
