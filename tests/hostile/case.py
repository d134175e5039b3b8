# SPDX-License-Identifier: Apache-2.0
"""A hostile case: what a user or an environment does, and what must come of it."""

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Exit codes of the command line.
DONE, FINDING, USAGE, ENVIRONMENT, DEFECT = range(5)
# Bad input: what is wrong with a model may be a finding about it, or a wrong file.
REFUSED = frozenset({FINDING, USAGE})
INTERRUPTED = frozenset({128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP})

GIB = 1 << 30


@dataclass(frozen=True)
class Case:
    """What is run in a folder of its own, and what is held against the outcome.

    `id` is verb/kind/what. `argv` is a command line of arm-ext; `code` is a Python program instead. In both, and in
    `env`, {assets} is the folder of shared inputs, {work} that of the case, {port} what `server` gives.
    """

    id: str
    argv: tuple[str, ...] = ()
    code: str = ""
    make: Callable[[Path], None] | None = None
    exits: frozenset[int] = frozenset({USAGE})
    says: str = ""  # regex, searched in stderr
    prints: str = ""  # regex, searched in stdout
    never: str = ""  # regex that neither may hold
    writes: tuple[
        str, ...
    ] = ()  # globs of what may be made or changed in the folder; ../tmp is that of TMPDIR
    check: Callable[[Path], str | None] | None = None  # a further condition: what is wrong, or None
    env: Mapping[str, str | None] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)  # RLIMIT_* → soft and hard limit
    stdio: Mapping[int, str] = field(default_factory=dict)  # 0, 1, 2 → closed, full or broken
    umask: int = 0o022
    cwd: str = "."
    seconds: float = 60.0
    memory: int = 8 * GIB
    lines: int = 30  # of stderr, at most: one screen and a little
    signals: tuple[tuple[float, int], ...] = ()  # (seconds after the start, signal)
    server: Callable[[], AbstractContextManager[int]] | None = None
    times: int = 1  # how many run at once, in one folder
    fresh: bool = False  # in an interpreter of its own, as a user starts it
    needs: str = ""  # what the machine must have: root, or a module
    terse: bool = False  # no message is expected to begin with "error:"

    @property
    def verb(self) -> str:
        """Return the first part of the id."""
        return self.id.split("/")[0]

    @property
    def kind(self) -> str:
        """Return the second part of the id."""
        return self.id.split("/")[1]


def cases(prefix: str, rows: Iterable[tuple[Any, ...]], **common: Any) -> list[Case]:
    """Return a case a row (what, argv or code, regex of stderr, {field: value}); `common` holds for each row."""
    result = []
    for what, run, says, *more in rows:
        fields = {**common, **(more[0] if more else {})}
        key = "code" if isinstance(run, str) else "argv"
        result.append(Case(id=f"{prefix}/{what}", says=says, **{key: run}, **fields))
    return result


def asset(name: str) -> Path:
    """Return the path of a shared input; the runner sets the folder."""
    return Path(os.environ["HOSTILE_ASSETS"]) / name


def both(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a `make` that takes several steps."""

    def make(folder: Path) -> None:
        for step in steps:
            step(folder)

    return make
