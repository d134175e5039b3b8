# SPDX-License-Identifier: Apache-2.0
"""Measurement of one kernel call: estimated cycles on a board that counts, a time on a real one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import tvm

from arm_ext.board import BoardInfo, conditions
from arm_ext.board.session import BoardSession
from arm_ext.common.trace import MODEL_IMAGE, ModelCode, Trace
from arm_ext.measure.cycles import LINE_BYTES, block_costs, line_cycles
from arm_ext.measure.mca import Mca, find_mca
from arm_ext.measure.pipes import least_cycles, vector_share
from arm_ext.tune.measure import Result
from schedules.cores import Core

ESTIMATE = 3
"""Version of the estimate, raised when the same candidate would get other cycles; costs of other versions are not
comparable."""

VECTOR_PIPES = "vector pipes"
"""Name of the condition that holds the utilisation of the vector pipes; see `arm_ext.measure.pipes`."""

BOUND = "bound"
"""Name of the condition that holds the share of the cost below which no order of the same instructions goes.

The bound is the cycles that fill the vector pipes, or dispatch, and those to fetch each line that is read or written
and was not in L1 and L2, once."""

_REPEATS = 9
# A call is repeated until the repetitions take this many ms, at least a thousand ticks of the clock.
_REPEAT_MS = 5
# Sufficient interquartile range divided by the median: below the minimum gain of a record.
_SPREAD = 0.02
_ROUNDS = 5
# Tukey's fence: values more than this many interquartile ranges outside the quartiles are outliers.
_FENCE = 1.5


@dataclass(frozen=True)
class Loaded:
    """A kernel that is loaded on a board, with its arguments.

    Attributes:
        session: The open session.
        info: Description that a real board gives of itself; None for a board that counts.
        dump: File that a board that counts writes.
        module: The loaded library.
        name: Name of the kernel in it.
        arguments: Tensors on the board, the output last.
        so: The library's file.
    """

    session: BoardSession
    info: BoardInfo | None
    dump: Path | None
    module: tvm.runtime.Module
    name: str
    arguments: Sequence[tvm.runtime.Tensor]
    so: Path

    @property
    def lines(self) -> int:
        """Number of cache lines of all arguments."""
        return sum(math.prod(a.shape) * np.dtype(str(a.dtype)).itemsize // LINE_BYTES for a in self.arguments)

    def seconds(self, repeats: int, repeat_ms: int = 0) -> list[float]:
        """Return `repeats` times of a call in seconds, each a mean over calls that together take `repeat_ms`."""
        with self.session.guard():
            evaluate = self.module.time_evaluator(
                self.name, self.session.device(), number=1, repeat=repeats, min_repeat_ms=repeat_ms
            )
            return [float(seconds) for seconds in evaluate(*self.arguments).results]

    def trace(self) -> Trace:
        """Trace one warm call on a board that counts instructions."""
        assert self.dump is not None
        self.seconds(repeats=2)  # the first call between the plugin's marks only fills its caches
        with self.session.guard():
            maps = str(self.session.function("arm_ext.board.maps")())
        return Trace.parse(self.dump, maps, ModelCode.read(self.so))


Cost = Callable[[Loaded], Result]


@dataclass(frozen=True)
class Cycles:
    """Function that counts one warm call on one thread and estimates its cycles, including transfers of cache lines.

    Registers that are spilled count as the loads and stores that they are.

    Attributes:
        core: Core to estimate cycles for.
    """

    core: Core
    mca: Mca = field(default_factory=lambda: replace(find_mca(), keep=False))

    def __call__(self, kernel: Loaded) -> Result:
        """Return the cost of the kernel itself, without the surrounding runtime."""
        trace = kernel.trace()
        blocks = [block for block in trace.blocks if block.image == MODEL_IMAGE]
        costs = block_costs(blocks, self.core, self.mca)
        misses = trace.misses or (0, 0)
        cycles = sum(cost.cycles for cost in costs) + line_cycles(*misses)
        once = [min(count, kernel.lines) for count in misses]
        least = least_cycles(costs, self.core)
        least += line_cycles(*once)
        return Result(
            round(cycles, 1),
            sum(block.instructions for block in blocks),
            conditions={
                BOUND: f"{min(1.0, least / cycles):.3f}",
                VECTOR_PIPES: f"{vector_share(costs, self.core):.3f}",
                "lines from L2": str(misses[0]),
                "lines from memory": str(misses[1]),
            },
        )


def seconds(kernel: Loaded) -> Result:
    """Time a kernel until the spread is small; outliers are timed again, a limited number of times."""
    times: list[float] = []
    for _ in range(_ROUNDS):
        times = _without_outliers([*times, *kernel.seconds(_REPEATS, _REPEAT_MS)])
        if len(times) >= _REPEATS and _spread(times) <= _SPREAD:
            break
    return Result(float(np.median(times)), conditions=_conditions(kernel, times))


def _without_outliers(times: Sequence[float]) -> list[float]:
    low, median, high = np.percentile(times, [25, 50, 75])
    reach = max(_FENCE * (high - low), _SPREAD * median)
    return [value for value in times if low - reach <= value <= high + reach]


def _spread(times: Sequence[float]) -> float:
    low, median, high = np.percentile(times, [25, 50, 75])
    return float((high - low) / median)


def _conditions(kernel: Loaded, times: Sequence[float]) -> dict[str, str]:
    session, info = kernel.session, kernel.info
    assert info is not None
    return {
        "cpu": info.cpu,
        "cores": str(info.cores),
        "threads": str(conditions.threads(session)),
        "governor": conditions.governor(session),
        "temperature": conditions.temperature(session),
        "repeats": str(len(times)),
        "spread": f"{_spread(times):.3f}",
    }
