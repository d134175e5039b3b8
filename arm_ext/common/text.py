# SPDX-License-Identifier: Apache-2.0
"""Plain text that reports are made of."""

from collections.abc import Sequence


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines of aligned columns; the last column is free text and is not padded."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
