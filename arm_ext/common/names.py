# SPDX-License-Identifier: Apache-2.0
"""Names of tensors, operators and options: suggestions for unknown ones, and checks for invalid characters."""

import difflib
from collections.abc import Collection, Iterable

from arm_ext.common.errors import UsageError
from arm_ext.common.text import shown, visible

# A message lists all known names if they fit on a few lines, else the most similar ones.
_LISTED, _NEAREST = 24, 5


def node_of(name: str, nodes: Collection[str]) -> str | None:
    """Return the node that a user's name refers to: by its full name, a unique ending, or as the only node of a module.

    A name may be cut by "…", as tables print it. "conv.0/conv2d", and "features.3.conv.0" as long as it has one node,
    mean "features.3.conv.0/conv2d". None if no node is meant, or several are.
    """
    if name in nodes:
        return name
    meant = _meant(name, nodes)
    return meant[0] if len(meant) == 1 else None


def _meant(name: str, nodes: Iterable[str]) -> list[str]:
    """Return the nodes whose name ends with the components `name`, begins with it as a module, or is cut to it."""
    first, cut, last = name.partition("…")
    if cut and (first or last):
        return [node for node in nodes if node.startswith(first) and node.endswith(last)]
    ends = tuple(f"{mark}{name}" for mark in "/.:")
    return [node for node in nodes if name and (node.endswith(ends) or node.startswith(f"{name}/"))]


def near(name: str, known: Iterable[str]) -> str:
    """Return "did you mean a or b?" for similar known names, or a list of the known names."""
    names = sorted(known)
    meant = _meant(name, names)
    if len(meant) == 1:
        return f"did you mean {meant[0]}?"
    if meant:
        more = f" or one of {len(meant) - _NEAREST} more" if len(meant) > _NEAREST else ""
        return f"several have such a name: {', '.join(meant[:_NEAREST])}{more}"
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
    """Refuse a name with invisible or terminal-control characters, and one that is too long to type.

    Raises:
        UsageError: The name is such a one.
    """
    if visible(name, kept="") != name:
        raise UsageError(f"{what} has control characters in its name, '{shown(name)}'; rename it")
    if len(name) > _LONGEST:
        raise UsageError(
            f"{what} has a name of {len(name):,} characters, '{shown(name)}'; give it a name of at most {_LONGEST:,}"
        )
