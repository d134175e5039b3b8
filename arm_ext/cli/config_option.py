# SPDX-License-Identifier: Apache-2.0
"""Options in files: `--config FILE.yaml`, and the description of a model in a file beside it.

A description of model.onnx is model.onnx.yaml. It says what every command needs to know of the model, such as `shape`,
and is read by all that take the model. Options on the command line take the place of those of --config, and these of
those of the description.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import click

from arm_ext.cli.console import NAMES
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.common.model_description import DESCRIPTION_KEYS, description_of
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
        callback=_read_config,
        metavar="FILE.yaml",
        help="YAML file of options by their names on the command line, such as `precision: fp16`; one that may be "
        "given several times takes a list. The command line takes precedence. `arm-ext advise --apply` writes such "
        "a file.",
    )
    return option(command)


def model_argument(name: str = "model") -> Callable[[_Command], _Command]:
    """Return the decorator that adds the argument of a model, whose description is read, and --config."""

    def add(command: _Command) -> _Command:
        argument = click.argument(name, type=PATH, is_eager=True, callback=_read_description)
        return argument(config_option(command))

    return add


def models_argument(command: _Command) -> _Command:
    """Add the argument MODELS, of any number, and --config; see `model_argument`."""
    argument = click.argument(
        "models", nargs=-1, metavar="[MODEL]...", type=PATH, is_eager=True, callback=_read_descriptions
    )
    return argument(config_option(command))


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a file may set: name without `--` → option."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    named = {option.opts[0].removeprefix("--"): option for option in options if option.opts[0][:2] == "--"}
    # -o is declared before --output.
    named |= {option.opts[-1].removeprefix("--"): option for option in options}
    return {name: option for name, option in named.items() if name not in _NOT_IN_FILES}


def _read_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **_options(ctx, path)}


def _options(ctx: click.Context, path: Path) -> dict[str, Any]:
    """Return the options of a configuration: name of the option's value → value."""
    # Not imported above: it loads a library, which --help does not need.
    from arm_ext.common.yaml_file import read_mapping

    options = options_of(ctx.command)
    found: dict[str, Any] = {}
    for key, value in read_mapping(path, "options of this command, such as precision: fp16").items():
        if key not in options:
            raise UsageError(f"{path}: `{ctx.info_name}` has no option {key!r}; {near(str(key), options)}")
        option = options[str(key)]
        assert option.name is not None
        found[option.name] = _value(f"{path}: {key}", option, value)
    return found


def _read_description(ctx: click.Context, _param: click.Parameter, model: Path) -> Path:
    _read_descriptions(ctx, _param, (model,))
    return model


def _read_descriptions(ctx: click.Context, _param: click.Parameter, models: Sequence[Path]) -> Sequence[Path]:
    found: dict[str, Any] = {}
    for model in models:
        prefix = f"{model.stem}:" if len(models) > 1 else ""
        for name, value in _described(ctx, model).items():
            if prefix and isinstance(value, str):
                raise UsageError(
                    f"{description_of(model)}: --{name.replace('_', '-')} is for one model, but there are {len(models)}"
                )
            # With several models, each value begins with the name of its model.
            found[name] = [*found.get(name, ()), *(prefix + each for each in value)] if prefix else value
    ctx.default_map = {**found, **(ctx.default_map or {})}
    return models


def _described(ctx: click.Context, model: Path) -> dict[str, Any]:
    """Return the options of a model's description that the command takes."""
    if not model.is_file() or not (path := description_of(model)).is_file():
        return {}
    from arm_ext.common.yaml_file import read_mapping

    options = options_of(ctx.command)
    found: dict[str, Any] = {}
    read: list[str] = []
    for key, value in read_mapping(path, f"a description of {model.name}, such as shape: x=1,64").items():
        if key not in DESCRIPTION_KEYS:
            raise UsageError(
                f"{path}: a model's description has no {key!r}; it has {', '.join(DESCRIPTION_KEYS)}"
            )
        if (option := options.get(str(key))) is None:
            continue
        assert option.name is not None
        given = _value(f"{path}: {key}", option, value)
        found[option.name] = str(path.parent / given) if option.type is PATH else given
        read.append(str(key))
    if found:
        click.echo(f"reading {path}: {', '.join(read)}", err=True)
    return found


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
