# SPDX-License-Identifier: Apache-2.0
"""What the verbs share: consoles, the progress bar, and option types."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

# soft_wrap: a pipe or a narrow window gets whole lines, never lines broken inside a path.
stdout = Console(soft_wrap=True, highlight=False)
stderr = Console(stderr=True, highlight=False)


def command(verb: str) -> str:
    """Return how to call a verb the way this process was called: installed, or by a script of a checkout."""
    program = Path(sys.argv[0])
    if program.suffix != ".py":
        return f"arm-ext {verb}"
    return f"{_short(Path(sys.executable))} {_short(program.with_name(f'{verb}.py'))}"


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@contextmanager
def progress(title: str, steps: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Show a bar on stderr over named steps; nothing when it is no terminal, or with NO_COLOR or CI set."""
    quiet = not stderr.is_terminal or "NO_COLOR" in os.environ or "CI" in os.environ
    columns = (TextColumn(title), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True, disable=quiet) as bar:
        task = bar.add_task("", total=len(steps))

        def step(name: str) -> None:
            bar.update(task, completed=steps.index(name), description=name)

        yield step


class Shape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """NAME=1,3,224,224 → (NAME, (1, 3, 224, 224))."""

    name = "shape"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """Parse one occurrence of the option."""
        name, separator, dims = value.rpartition("=")
        try:
            shape = tuple(int(dim) for dim in dims.split(","))
        except ValueError:
            shape = ()
        if not (separator and name and shape):
            self.fail(f"{value!r} is not of the form NAME=1,3,224,224", param, ctx)
        return name, shape
