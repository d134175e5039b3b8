# SPDX-License-Identifier: Apache-2.0
"""Helpers of scripts that print a table of several models."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from arm_ext.common.errors import ArmExtError

Row = TypeVar("Row")


def measured(paths: Iterable[Path], measure: Callable[[Path], Iterable[Row]]) -> tuple[list[Row], int]:
    """Return the rows of all models that can be measured, and the exit code; after an error others follow."""
    rows: list[Row] = []
    failed = 0
    for path in paths:
        try:
            rows += measure(path)
        except ArmExtError as err:
            sys.stderr.write(f"error: {path}: {err}\n")
            failed = max(failed, err.exit_code)
    return rows, failed


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "".join(map(markdown_row, [columns, ("---",) * len(columns), *rows]))


def markdown_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |\n"
