# SPDX-License-Identifier: Apache-2.0
"""Suggestions for unknown names."""

import difflib
from collections.abc import Iterable

# As many as fit on a few lines; of more the nearest are listed.
_LISTED, _NEAREST = 24, 5


def near(name: str, known: Iterable[str]) -> str:
    """Return "did you mean a or b?" for similar known names, or a list of the known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if len(names) <= _LISTED:
        return f"known are: {', '.join(names)}"
    nearest = difflib.get_close_matches(name, names, _NEAREST, cutoff=0.0)
    return f"the nearest of {len(names):,} are: {', '.join(nearest)}"
