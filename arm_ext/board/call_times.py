# SPDX-License-Identifier: Apache-2.0
"""Times and hardware counters of each kernel call, from a real board."""

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arm_ext.common.errors import EnvError

_PARANOID = (
    "the kernel lets no program read them: set kernel.perf_event_paranoid to 2 or less on the board, and let its "
    "container, if it runs in one, call perf_event_open"
)
_NOT_THERE = "the machine has none that a program can read, as most virtual machines"
_WHY_NOT = {
    errno.EACCES: _PARANOID,
    errno.EPERM: _PARANOID,
    errno.ENOENT: _NOT_THERE,
    errno.ENODEV: _NOT_THERE,
    errno.EOPNOTSUPP: _NOT_THERE,
    errno.ENOSYS: "the board's kernel is built without perf events",
}


@dataclass(frozen=True)
class TimedCall:
    """One kernel call in each of several runs.

    Attributes:
        symbol: Symbol of the kernel.
        seconds: Seconds in each run, without the time that reading the clock takes.
        counters: Name of a counter → its counts in each run.
    """

    symbol: str
    seconds: tuple[float, ...]
    counters: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Watch:
    """The overhead of timing calls, and the counters that are read.

    Attributes:
        overhead_seconds: Seconds measured for an empty call; they are subtracted from the times.
        counters: Names of the counters that are read.
        without_counters: Why no counter is read although they were asked for; "" otherwise.
    """

    overhead_seconds: float
    counters: tuple[str, ...]
    without_counters: str

    @classmethod
    def parse(cls, text: str) -> "Watch":
        """Parse what `arm_ext_calls_watch` answers."""
        overhead, counters = (line.split()[1:] for line in text.splitlines())
        if counters[:1] == ["errno"]:
            number = int(counters[1])
            return cls(int(overhead[0]) / 1e9, (), _WHY_NOT.get(number, os.strerror(number)))
        return cls(int(overhead[0]) / 1e9, tuple(counters), "")

    def calls(self, text: str, runs: int) -> list[TimedCall]:
        """Parse the answer of `arm_ext_calls_read` for several runs, which must have made the same calls.

        Args:
            text: A line "kernel begin_ns end_ns count …" each, as it came.
            runs: How many inferences, of which the first is left out.

        Raises:
            EnvError: The runs made other calls.
        """
        noted = [line.split() for line in text.splitlines()]
        size = len(noted) // runs
        rows = [noted[start : start + size] for start in range(0, size * runs, size)] if size else []
        if len(noted) != size * runs or any([c[0] for c in row] != [c[0] for c in rows[0]] for row in rows):
            raise EnvError(
                "the runs of the model called different kernels: its control flow depends on more than its inputs"
            )
        return list(self._joined(rows[1:]))

    def _joined(self, runs: Sequence[Sequence[Sequence[str]]]) -> Iterator[TimedCall]:
        for same in zip(*runs, strict=True):
            seconds = ((int(call[2]) - int(call[1])) / 1e9 - self.overhead_seconds for call in same)
            yield TimedCall(
                same[0][0],
                tuple(max(0.0, value) for value in seconds),
                {name: tuple(int(call[3 + i]) for call in same) for i, name in enumerate(self.counters)},
            )
