# SPDX-License-Identifier: Apache-2.0
"""Plain-text formatting for reports."""

import csv
import io
import re
import textwrap
from collections.abc import Mapping, Sequence


def columns(rows: Sequence[tuple[str, ...]], align: str = "") -> list[str]:
    """Return rows as lines of aligned columns; the last column is free text and is not padded.

    Args:
        rows: Rows of cells, each with the same number of cells.
        align: "<" or ">" for each column; without it all are aligned to the left.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    sides = align or "<" * len(widths)
    return [
        "  ".join(
            [*(f"{cell:{side}{w}}" for cell, side, w in zip(row, sides, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in rows
    ]


PAGE = 120
"""Width of a page for people, in columns."""


def wrapped(begin: str, text: str) -> list[str]:
    """Return text as lines of a page: the first after `begin`, the others indented to align with it."""
    kept = text.replace(" %", "\u00a0%")  # keep a percent sign on the line of its number
    lines = textwrap.wrap(
        kept, PAGE, initial_indent=begin, subsequent_indent=" " * len(begin), break_on_hyphens=False
    )
    return [line.replace("\u00a0", " ") for line in lines] or [begin.rstrip()]


def clipped(text: str, width: int) -> str:
    """Return text clipped to `width` columns: the middle is left out, since names of nodes differ at both ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters of ASCII and ISO 6429, separators of lines, and marks that change the direction of text."""


def visible(text: str, kept: str = "\n\t") -> str:
    r"""Return text in which control characters are escaped as \uXXXX, as in JSON.

    Args:
        text: A text, which may be JSON.
        kept: Control characters that stay.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in kept else f"\\u{ord(found[0]):04x}", text)


NAME = 300
"""Most characters of a name that are shown; exporters write paths of up to some 200."""


def shown(name: str) -> str:
    """Return a name, such as a node's, for messages: escaped, and at most `NAME` characters long."""
    return clipped(visible(name, kept=""), NAME)


_HUNDRED_THOUSAND = 100_000


def millions(count: float) -> str:
    """Return "1.234 M", or all digits of a number below a hundred thousand."""
    return f"{count / 1e6:.3f} M" if count >= _HUNDRED_THOUSAND else f"{count:,.0f}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 operator" or "2 operators"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_MOST_DIGITS = 10
"""Most significant digits to show: a smaller difference is one of rounding."""


def told_apart(values: Sequence[float], digits: int = 4) -> list[str]:
    """Return numbers as text with enough significant digits to distinguish different ones.

    Args:
        values: The numbers, which a reader compares.
        digits: Significant digits where these are enough.
    """
    most = [f"{value:.{_MOST_DIGITS}g}" for value in values]
    texts = ([f"{value:.{count}g}" for value in values] for count in range(digits, _MOST_DIGITS))
    return next((each for each in texts if len(set(each)) == len(set(most))), most)


_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def comma_separated(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as comma-separated lines, after a line with the names of the first row's fields.

    Spreadsheets compute cells that begin as formulas do: texts, which hold names of a model, get a space before that.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(cell) for name, cell in row.items()} for row in rows)
    return file.getvalue()


def _inert(cell: object) -> object:
    return f" {cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell
