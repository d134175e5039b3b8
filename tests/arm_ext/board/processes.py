# SPDX-License-Identifier: Apache-2.0
"""Who is running, from /proc."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep


def processes_of(parent: int) -> list[int]:
    """Process ids of the children of `parent`."""
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def group(leader: int) -> list[int]:
    """Process ids of a process group, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # pid (name) state ppid pgrp ...; the name may hold spaces
            state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == leader and state != "Z":
                found.append(int(entry.name))
    return found


def eventually(holds: Callable[[], bool], every: float = 0.05) -> bool:
    """Whether it holds within five minutes, which are for a machine under load."""
    deadline = monotonic() + 300
    while not holds() and monotonic() < deadline:
        sleep(every)
    return holds()
