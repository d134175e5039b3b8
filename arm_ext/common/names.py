# SPDX-License-Identifier: Apache-2.0
"""Names that users give to tensors, operators and options: suggestions for unknown ones, and what none may have."""

import difflib
from collections.abc import Iterable

from arm_ext.common.errors import UsageError
from arm_ext.common.text import shown, visible

# A message lists all known names if they fit on a few lines, else the nearest ones.
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


_LONGEST = 2000
"""Most characters of a name by which a caller addresses a tensor; exporters write some 300 at most."""


def check_name(what: str, name: str) -> None:
    """Refuse a name with characters that are not seen or steer a terminal, and one that nobody can type.

    Raises:
        UsageError: The name is such a one.
    """
    if visible(name, kept="") != name:
        raise UsageError(f"{what} has control characters in its name, '{shown(name)}'; rename it")
    if len(name) > _LONGEST:
        raise UsageError(
            f"{what} has a name of {len(name):,} characters, '{shown(name)}'; give it one of {_LONGEST:,} at most"
        )
