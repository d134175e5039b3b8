# SPDX-License-Identifier: Apache-2.0
"""`--config FILE.yaml`: options of a command in a file; options on the command line take precedence."""

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import click

from arm_ext.cli.console import NAMES
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.common.names import near

_Command = TypeVar("_Command", bound=Callable[..., Any])

_NOT_IN_FILES = ("config", "help")


_PLAIN = (str, int, float, date)
"""Types of YAML values that can be written on a command line; bool is a subclass of int."""


def config_option(command: _Command) -> _Command:
    """Add --config."""
    option = click.option(
        "--config",
        type=PATH,
        is_eager=True,
        expose_value=False,
        callback=_read,
        metavar="FILE.yaml",
        help="YAML file of options by their names on the command line, such as `precision: fp16`; one that may be "
        "given several times takes a list. The command line takes precedence. `arm-ext advise --apply` writes such "
        "a file.",
    )
    return option(command)


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a file may set: name without `--` → option."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    named = {option.opts[0].removeprefix("--"): option for option in options if option.opts[0][:2] == "--"}
    # -o is declared before --output.
    named |= {option.opts[-1].removeprefix("--"): option for option in options}
    return {name: option for name, option in named.items() if name not in _NOT_IN_FILES}


def _read(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    # Not imported above: it loads a library, which --help does not need.
    from arm_ext.common.yaml_file import read_mapping

    options = options_of(ctx.command)
    found: dict[str, Any] = {}
    for key, value in read_mapping(path, "options of this command, such as precision: fp16").items():
        if key not in options:
            raise UsageError(f"{path}: unknown key {key!r}; {near(str(key), options)}")
        option = options[str(key)]
        assert option.name is not None
        found[option.name] = _value(f"{path}: {key}", option, value)
    ctx.default_map = {**(ctx.default_map or {}), **found}


def _value(where: str, option: click.Option, value: Any) -> Any:
    """Return the value as text of a command line, which the option's type then parses."""
    if isinstance(value, Mapping) or value is None:
        raise UsageError(
            f"{where}: expected {_expected(option)}, not {'nothing' if value is None else 'a mapping'}"
        )
    odd = [each for each in (value if isinstance(value, list) else [value]) if not isinstance(each, _PLAIN)]
    if odd:
        raise UsageError(f"{where}: expected {_expected(option)}, not a {type(odd[0]).__name__}")
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: expected true or false, not {value!r}")
        return value
    if option.multiple:
        return [str(each) for each in (value if isinstance(value, list) else [value])]
    if option.type is NAMES:
        return "" if value is True else ",".join(map(str, value if isinstance(value, list) else [value]))
    if isinstance(value, list | bool):
        raise UsageError(f"{where}: expected {_expected(option)}, not {value!r}")
    return str(value)


def _expected(option: click.Option) -> str:
    if option.is_flag:
        return "true or false"
    return "a value or a list of them" if option.multiple or option.type is NAMES else "a value"
