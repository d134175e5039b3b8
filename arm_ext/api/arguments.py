# SPDX-License-Identifier: Apache-2.0
"""Checks of the Python API's arguments, made before any work; messages name the argument."""

from collections.abc import Mapping
from typing import Any, get_args

from arm_ext.common.errors import UsageError


def check_type(name: str, value: object, *types: type) -> None:
    """Raise UsageError if an argument's type is none of `types`.

    Raises:
        UsageError: Names the argument, its value and the types that it may have.
    """
    if not isinstance(value, types):
        raise UsageError(f"{name}={_short(value)}: must be {' or '.join(each.__name__ for each in types)}")


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise UsageError if an argument is not among a `Literal`'s values.

    Raises:
        UsageError: Names the argument, its value and the choices.
    """
    if value not in get_args(choices):
        raise UsageError(f"{name}={_short(value)}: must be one of {', '.join(map(repr, get_args(choices)))}")


def refuse_compiled(options: Mapping[str, object]) -> None:
    """Raise UsageError if an option of `compile` is given for a package, which is already compiled.

    Args:
        options: Name on the command line → value; an empty value means that the option was not given.

    Raises:
        UsageError: Names the first that is given.
    """
    for name, value in options.items():
        if value:
            raise UsageError(f"{name}: a package is already compiled; the option is only for model files")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
