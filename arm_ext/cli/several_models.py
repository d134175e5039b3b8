# SPDX-License-Identifier: Apache-2.0
"""Options of `arm-ext compile` for several models, which become one C library."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from arm_ext.common.errors import UsageError

_T = TypeVar("_T")


def check_several(
    models: Sequence[Path], emit: str, output: Path | None, refused: Mapping[str, object]
) -> None:
    """Check the options for several models.

    Args:
        models: Paths of the models' files.
        emit: Value of --emit.
        output: Path to write to.
        refused: Options that are for one model, and what was given for them.

    Raises:
        UsageError: The models would be packages, the library has no name, or an option is for one model only.
    """
    # A shell has expanded unquoted braces.
    if rest := next((path for path in models if "=" in path.name and not path.exists()), None):
        raise UsageError(
            f"{rest}: no such model; if it is a part of --shape, quote that: --shape 'NAME=1,{{64,128}}'"
        )
    if emit != "c-library":
        raise UsageError(
            f"{len(models)} models, but a package holds one: compile them one by one, or into one C library by "
            "--emit c-library"
        )
    if output is None:
        raise UsageError("-o is missing: a library of several models is named after the folder that it names")
    if given := [option for option, value in refused.items() if value]:
        raise UsageError(
            f"{' and '.join(given)}: only for one model, but there are {len(models)}; compile them one by one"
        )


def by_model(
    option: str, pairs: Iterable[tuple[str, _T]], models: Sequence[Path]
) -> list[tuple[tuple[str, _T], ...]]:
    """Return, for each model, the values of an option that refer to its inputs.

    Args:
        option: Name of the option on the command line.
        pairs: "MODEL:NAME" of an input → the option's value for it.
        models: Paths of the models' files.

    Raises:
        UsageError: The model is not named, or there is no such model.
    """
    names = [path.stem for path in models]
    found: dict[str, tuple[tuple[str, _T], ...]] = dict.fromkeys(names, ())
    for key, value in pairs:
        # The longest match, since names may contain colons.
        name = max((name for name in names if key.startswith(f"{name}:")), key=len, default=None)
        if name is None:
            raise UsageError(
                f"{option} {key}: the model is missing; with several models, write {option} MODEL:{key}=…, where "
                "MODEL is "
                f"{' or '.join(names)}"
            )
        found[name] += ((key.removeprefix(f"{name}:"), value),)
    return [found[name] for name in names]
