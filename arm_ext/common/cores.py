# SPDX-License-Identifier: Apache-2.0
"""Core numbers of a board, as `--cores` and Linux write them: "4-7" or "0,2"."""

import re
from collections.abc import Iterable
from itertools import groupby

from arm_ext.common.errors import UsageError

_MOST = 4096
"""Upper limit of cores, more than any Linux machine has."""


def parse_cores(text: str) -> tuple[int, ...]:
    """Return the core numbers of a text without duplicates, in ascending order.

    Raises:
        UsageError: The text names no core.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < _MOST:
            raise UsageError(
                f"--cores {text}: {part!r} is neither a core nor a range of cores, such as 4-7 or 0,2"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def cores_text(cores: Iterable[int]) -> str:
    """Return core numbers as text: "0,2-3"."""
    ranges = []
    for _, run in groupby(enumerate(sorted(cores)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        ranges.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(ranges)
