# SPDX-License-Identifier: Apache-2.0
"""Consoles, the progress bar and option types shared by the commands."""

import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from arm_ext.common.errors import UsageError
from arm_ext.common.outputs import checked_file, refuse_inputs, write_file
from arm_ext.common.text import visible
from arm_ext.frontends.onnx.external_files import with_external_files
from arm_ext.shapes.given import Dim, parse_dims

QUIET, VERBOSE = "quiet", "verbose"
"""What `arm-ext -q` and `-v` ask for."""

# soft_wrap: lines are never broken inside a path, neither in a pipe nor in a narrow window.
stdout = Console(soft_wrap=True, highlight=False)
stderr = Console(stderr=True, highlight=False)


def command(verb: str) -> str:
    """Return how to call a command the way this process was called: as installed, or by a script of a checkout."""
    program = Path(sys.argv[0])
    if program.suffix != ".py":
        return f"arm-ext {verb}"
    return f"{_short(Path(sys.executable))} {_short(program.with_name(f'{verb}.py'))}"


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


_EVERY = 10.0
"""Seconds between two lines of progress."""


@contextmanager
def progress(title: str, steps: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Show progress over named steps on stderr: a bar on a terminal, else a line every 10 s.

    With NO_COLOR or CI set, or `arm-ext -q`, nothing is shown; with `arm-ext -v` a line per step.
    """
    context = click.get_current_context(silent=True)
    asked = str(context.find_root().obj or "") if context is not None else ""
    silent = asked == QUIET or (asked != VERBOSE and bool({"NO_COLOR", "CI"} & os.environ.keys()))
    if silent or asked == VERBOSE or not stderr.is_terminal:
        with _lines(title, None if silent else _EVERY, each=asked == VERBOSE) as step:
            yield step
    else:
        with _bar(title, steps) as step:
            yield step


@contextmanager
def _lines(title: str, every: float | None, *, each: bool) -> Iterator[Callable[[str], None]]:
    """Write a line of progress every `every` seconds (None: never), and with `each` also when a step begins."""
    begin, ended = monotonic(), Event()
    now = "start"

    def write() -> None:
        text = visible(f"{title}: {now}, {monotonic() - begin:.0f} s")
        with suppress(OSError):
            os.write(
                2, f"{text}\n".encode()
            )  # without a lock, since a fork of this process might inherit it locked

    def step(name: str) -> None:
        nonlocal now
        now = name
        if each:
            write()

    def repeat() -> None:
        while not ended.wait(every):
            write()

    if every is not None:
        Thread(target=repeat, daemon=True).start()
    try:
        yield step
    finally:
        ended.set()


@contextmanager
def _bar(title: str, steps: Sequence[str]) -> Iterator[Callable[[str], None]]:
    columns = (TextColumn(title), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Messages that are printed while the bar is shown are written to `_VisibleText`, which escapes control
    # characters.
    with Progress(
        *columns,
        console=stderr,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task("", total=len(steps))

        def step(name: str) -> None:
            bar.update(task, completed=steps.index(name), description=escape(visible(name)))

        yield step


def columns(rows: Sequence[Sequence[str]], align: str = "") -> str:
    """Return rows as lines of aligned columns, as wide as necessary; rich's tables would break cells to fit the window.

    On a terminal, a line that is too long for it is cut; a pipe gets all.

    Args:
        rows: Rows of cells, each with the same number of cells.
        align: "<" or ">" for each column; without it all are aligned to the left.
    """
    sides = align or "<" * len(rows[0])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    )
    return "\n".join(map(_cut, lines))


def prose(text: str, indent: int = 0) -> str:
    """Return sentences as lines that fit the terminal, all but the first indented; in a pipe, as one line."""
    width = _width()
    return text if width is None else textwrap.fill(text, width, subsequent_indent=" " * indent)


def _cut(line: str) -> str:
    width = _width()
    return line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def _width() -> int | None:
    """Return the number of columns of stdout's terminal; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class _Names(click.ParamType[tuple[str, ...]]):
    """Option type of comma-separated names: "a,b" → ("a", "b")."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse one occurrence of the option."""
        return value if isinstance(value, tuple) else tuple(filter(None, value.split(",")))


NAMES = _Names()
"""Option type of comma-separated names."""


class Number(click.FloatRange):
    """Option type of a number within bounds. NaN is refused, since it would pass every comparison with a bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is no number.", param, ctx) if math.isnan(number) else number


class Share(click.ParamType[float]):
    """Option type of a share: 1% or 0.01 → 0.01."""

    name = "share"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a share from 0 to 1."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{text!r} is no share, such as 1% or 0.01", param, ctx)
        return share


class ShapeOption(click.ParamType[tuple[str, tuple[Dim, ...]]]):
    """Option type NAME=1,3,224,224; a size may be a list {64,128} or the name of a dimension."""

    name = "shape"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[Dim, ...]]:
        """Parse one occurrence of the option."""
        # Split at the last "=" that is not part of a bound's "<=", since names may contain "=".
        found = re.fullmatch(r"(.+)(?<!<)=(.*)", value)
        name, dims = found.groups() if found else ("", "")
        try:
            shape = parse_dims(dims)
        except ValueError:
            shape = ()
        if not shape:
            self.fail(f"{value!r} is not of the form NAME=1,3,224,224 or 'NAME=1,{{64,128}}'", param, ctx)
        return name, shape


def given_shapes(options: Sequence[tuple[str, tuple[Dim, ...]]]) -> dict[str, tuple[Dim, ...]]:
    """Return the shapes by name.

    Raises:
        UsageError: An input has two shapes, as when a shell has expanded braces.
    """
    shapes = dict(options)
    if len(shapes) < len(options):
        twice = next(name for name, _ in options if [other for other, _ in options].count(name) > 1)
        raise UsageError(
            f"--shape names {twice} twice; write several sizes in braces, and quote them: "
            f"--shape '{twice}=1,{{64,128}}'"
        )
    return shapes


def check_outputs(outputs: Sequence[Path], endings: Sequence[str], inputs: Sequence[Path]) -> None:
    """Check the files that -o names, before any work.

    Raises:
        UsageError: A file has another ending, cannot be written, or is an input.
    """
    for output in outputs:
        if output.suffix not in endings:
            raise UsageError(f"{output}: --output writes files that end with {', '.join(endings)}")
        refuse_inputs(checked_file(output, "--output"), "--output", with_external_files(inputs))


def write_views(outputs: Sequence[Path], document: str, views: Mapping[str, Callable[[], str]]) -> None:
    """Write each file that -o names, in the format of its extension.

    Args:
        outputs: Paths of the files.
        document: The report as JSON, for ".json".
        views: Other file extension, such as ".html" → function that returns the content.
    """
    for output in outputs:
        content = f"{document}\n" if output.suffix == ".json" else views[output.suffix]()
        write_file(output, content.encode(), "--output")


class Pair(click.ParamType[tuple[str, str]]):
    """Option type A=B → (A, B)."""

    name = "pair"

    def __init__(self, form: str) -> None:
        """Store the text by which the option's help describes its values."""
        self._form = form

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Parse one occurrence of the option."""
        first, _, second = value.partition("=")
        if not (first and second):
            self.fail(f"{value!r} is not of the form {self._form}", param, ctx)
        return first, second
