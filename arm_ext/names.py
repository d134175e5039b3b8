# SPDX-License-Identifier: Apache-2.0
"""What to say to a name that nobody knows."""

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """Return "did you mean a or b?", or all known names if none is near."""
    close = difflib.get_close_matches(name, sorted(known))
    return f"did you mean {' or '.join(close)}?" if close else f"known are: {', '.join(sorted(known))}"
