# SPDX-License-Identifier: Apache-2.0
"""CPU seconds and counts of named sections, which may be nested and run on several threads."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock


@dataclass
class Section:
    """The CPU time of a named section, and its subsections.

    Attributes:
        seconds: CPU time, that of its parts included.
        parts: Named parts in the order in which they began; the rest has no name.
        counts: Name → number of times that `count` was called with it.
    """

    seconds: float = 0.0
    parts: "dict[str, Section]" = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def rows(self, depth: int = 0) -> "Iterator[tuple[int, str, Section]]":
        """Yield (depth, name, section) of all subsections, each before its own subsections."""
        for name, part in self.parts.items():
            yield depth, name, part
            yield from part.rows(depth + 1)

    def document(self) -> dict[str, object]:
        """Return the section for JSON."""
        parts = {name: part.document() for name, part in self.parts.items()}
        return {
            "cpu_seconds": round(self.seconds, 3),
            **({"counts": self.counts} if self.counts else {}),
            **({"parts": parts} if parts else {}),
        }


_CURRENT: ContextVar[Section | None] = ContextVar("section", default=None)
"""The current section of this context. It is a context variable, since some twenty functions of ten modules, from
import to linker, would take the section as an argument for `--timings` alone, and it changes nothing of what any of
them returns."""
_ADDING = Lock()


@contextmanager
def whole_process(loading: str) -> Iterator[Section]:
    """Record the sections of the block; the total has the CPU time of this process and its children so far.

    Args:
        loading: Name of a first part, for what the process used before the block.
    """
    whole = Section(parts={loading: Section(_process_seconds())})
    token = _CURRENT.set(whole)
    try:
        yield whole
    finally:
        _CURRENT.reset(token)
        whole.seconds = _process_seconds()


@contextmanager
def section(name: str) -> Iterator[None]:
    """Add the CPU time of this thread in the block to a subsection of the current section, if there is one.

    A thread records if it runs in a copy of the context of one that does.
    """
    around = _CURRENT.get()
    if around is None:
        yield
        return
    part = around.parts.setdefault(name, Section())
    token = _CURRENT.set(part)
    start = time.thread_time()
    try:
        yield
    finally:
        _CURRENT.reset(token)
        with _ADDING:
            part.seconds += time.thread_time() - start


def count(what: str) -> None:
    """Count an event in the current section, if there is one."""
    around = _CURRENT.get()
    if around is not None:
        with _ADDING:
            around.counts[what] = around.counts.get(what, 0) + 1


@contextmanager
def child_section(name: str) -> Iterator[None]:
    """Add the CPU time of child processes that end in the block to a subsection of the current section.

    Only one thread may wait for processes then.
    """
    around = _CURRENT.get()
    if around is None:
        yield
        return
    part = around.parts.setdefault(name, Section())
    start = _children_seconds()
    try:
        yield
    finally:
        spent = _children_seconds() - start
        part.seconds += spent
        around.seconds += spent


def _process_seconds() -> float:
    return time.process_time() + _children_seconds()


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system
