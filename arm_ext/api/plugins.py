# SPDX-License-Identifier: Apache-2.0
"""Plugins: users' Python files with converters of custom operators, rewrite rules and kernels.

A file defines one or more of

    CONVERTERS = {"com.example.Swirl": swirl}    operator, as error messages name it → a function of a `CustomOp`
    RULES = [root_of_square]                     as for `compile(..., rules=...)`
    KERNELS = [DotF32()]                         as for `compile(..., kernels=...)`
"""

import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar, cast

import tvm

from arm_ext.common.errors import ArmExtError, UsageError
from arm_ext.common.stdout import importing_code_of_users
from arm_ext.frontends.common.custom import Convert, blaming, converters, is_ours, what_users_raised
from relay_passes import Rule
from relay_passes.rewriter.rule import Match
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Kernel

_P = ParamSpec("_P")
_R = TypeVar("_R")

_NAMES = ("CONVERTERS", "RULES", "KERNELS")
_OF_A_KERNEL = ("NAME", "Params", "matches", "default", "candidates", "estimate", "pack", "build")


class Plugins(tuple[Path, ...]):
    """The files of plugins, and the converters, rules and kernels that they define.

    Attributes:
        converters: Operator → its converter.
        rules: Graph rewrites that are applied beside the built-in ones.
        kernels: Kernels that are chosen among beside the built-in ones.
    """

    converters: Mapping[str, Convert]
    rules: tuple[Rule, ...]
    kernels: tuple[Kernel, ...]

    def __new__(
        cls,
        files: Iterable[Path],
        converters: Mapping[str, Convert],
        rules: Iterable[Rule],
        kernels: Iterable[Kernel],
    ) -> Self:
        """Return a tuple of the files, which has the converters, rules and kernels as attributes."""
        plugins = super().__new__(cls, files)
        plugins.converters, plugins.rules, plugins.kernels = converters, tuple(rules), tuple(kernels)
        return plugins

    def told_in(self, message: str) -> str:
        """Return the line of an error message that names a plugin or a plugin's rule; "" if there is none."""
        ours = [
            *(f"plugin {path.absolute()}, " for path in self),
            *(f"rule {rule.name} " for rule in self.rules),
        ]
        return next((line for line in message.splitlines() if line.startswith(tuple(ours))), "")


def with_plugins(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate an API function with an argument `plugins`: paths become a `Plugins`, whose converters are active.

    The plugin files are loaded first, and imports inside the function use their converters. A function that passes its
    argument on to another one runs no file twice.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        held = getattr(kwargs.get("options") or next(filter(_is_record, args), None), "plugins", ())
        given = load_plugins(cast("Sequence[str | Path]", kwargs.pop("plugins", held)))
        kwargs["plugins"] = given
        with converters(given.converters):
            try:
                return function(*args, **kwargs)
            except ArmExtError:
                raise
            except Exception as err:  # errors that pass through TVM's C++ change their type
                if told := given.told_in(str(err)):
                    raise UsageError(told) from err
                raise

    return called


def _is_record(argument: object) -> bool:
    return is_dataclass(argument) and hasattr(argument, "plugins")


def load_plugins(paths: Sequence[str | Path]) -> Plugins:
    """Run plugin files, and return all that they define; return a `Plugins` unchanged.

    Raises:
        UsageError: A file is missing, fails, defines none of the three names, or gives one a wrong value; or two files
            have a converter of the same operator.
    """
    if isinstance(paths, Plugins):
        return paths
    if isinstance(paths, str | Path):
        raise UsageError(f"plugins: expected a list of files, such as [{str(paths)!r}]")
    files, origin, found = [Path(path) for path in paths], dict[str, Path](), list[Plugins]()
    for path in files:
        one = _checked(path, _module(path))
        for kind in one.converters:
            if kind in origin:
                raise UsageError(
                    f"plugin {path}: {origin[kind]} also has a converter of {kind}; remove one of the two"
                )
            origin[kind] = path
        found.append(one)
    return Plugins(
        files,
        {kind: convert for one in found for kind, convert in one.converters.items()},
        (rule for one in found for rule in one.rules),
        (kernel for one in found for kernel in one.kernels),
    )


def _module(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"--plugin {path}: no such file")
    name = f"arm_ext_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--plugin {path}: not a Python file; its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module in sys.modules
    try:
        with importing_code_of_users():
            spec.loader.exec_module(module)
    except BaseException as err:  # plugin code can raise any type
        if is_ours(err):
            raise
        raise UsageError(f"plugin {path}, line {_line(err, path)}: {what_users_raised(err)}") from err
    return module


def _line(err: BaseException, path: Path) -> int:
    if isinstance(err, SyntaxError) and err.lineno is not None:
        return err.lineno
    frames = traceback.extract_tb(err.__traceback__)
    own = [f.lineno for f in frames if Path(f.filename) == path.absolute()]
    return own[-1] if own and own[-1] is not None else 1


def _checked(path: Path, module: Any) -> Plugins:
    if not any(hasattr(module, name) for name in _NAMES):
        raise UsageError(f"plugin {path}: it defines none of {', '.join(_NAMES)}")
    given, rules, kernels = (getattr(module, name, None) for name in _NAMES)
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(
        isinstance(k, str) and callable(f) for k, f in given.items()
    ):
        raise UsageError(f"plugin {path}: CONVERTERS is not a dict of operator names to functions")
    if any(not isinstance(rule, Rule) for rule in rules or ()):
        raise UsageError(f"plugin {path}: an item of RULES is not a relay_passes.Rule")
    for kernel in kernels or ():
        if lacking := [name for name in _OF_A_KERNEL if not hasattr(kernel, name)]:
            raise UsageError(f"plugin {path}: a kernel of KERNELS has no {', '.join(lacking)}")
    return Plugins(
        [path],
        dict(given),
        map(_told_rule, rules or ()),
        (cast("Kernel", _ToldKernel(kernel)) for kernel in kernels or ()),
    )


def _told(function: Callable[_P, _R], doing: str, *types: type) -> Callable[_P, _R]:
    """Wrap a plugin's function: its errors, including a result of a wrong type, name the plugin."""

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with blaming(function, doing):
            result = function(*args, **kwargs)
            if types and not isinstance(result, types):
                wanted = " or ".join(each.__name__ for each in types)
                raise TypeError(f"it returns {type(result).__name__} instead of {wanted}")
            return result

    return called


def _told_rule(rule: Rule) -> Rule:
    doing = f"rule {rule.name}"
    check, rewrite = _told(rule.check, doing, Match, Diagnostic), _told(rule.rewrite, doing, tvm.ir.Expr)
    return replace(rule, check=check, rewrite=rewrite)


class _ToldKernel:
    """A plugin's kernel, whose errors name the plugin."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kernel, name)
        is_function = callable(found) and not isinstance(found, type)
        return _told(found, f"kernel {self._kernel.NAME}") if is_function else found
