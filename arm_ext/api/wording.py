# SPDX-License-Identifier: Apache-2.0
"""Translation of error messages: options of the command line become arguments of the Python API."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from arm_ext.common.errors import ArmExtError

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Option → argument, where the names differ by more than dashes and underscores.
_ARGUMENTS = {"shape": "shapes", "input": "inputs", "plugin": "plugins", "without-kernel": "without"}

_SAME = (
    *(
        "against",
        "batch",
        "board",
        "calibration",
        "cc",
        "certificate",
        "cpu-mhz",
        "cpu-ops",
        "db",
        "dump-phases",
        "emit",
        "fail-on-fallback",
        "fail-on-unpacked",
    ),
    *(
        "handover-us",
        "mattr",
        "memory",
        "memory-budget",
        "memory-mode",
        "npu",
        "npu-mhz",
        "npu-ops",
        "on-npu-error",
        "precision",
    ),
    *(
        "preprocess",
        "quantize",
        "rule",
        "sram-budget",
        "state",
        "state-init",
        "steps",
        "system-config",
        "target",
        "targets",
    ),
    *("tasks", "threads", "trials", "trust", "tuned", "vela-config", "weights"),
)

_OPTION = re.compile(
    rf"(?<![\w-])--({'|'.join(sorted((*_ARGUMENTS, *_SAME), key=len, reverse=True))})(?![\w-])"
)
# The sentence that advises `arm-ext init`, whose file only the command line reads.
_FILES = re.compile(r"\n`arm-ext init [^\n]*")
_COMMAND = re.compile(r"(?:`[^`]*`|\barm-ext [a-z-]+[^.;]*|\bpython -m [^.;]*|\bpip install [^.;]*)")


def in_python(text: str) -> str:
    """Return a message with options replaced by arguments: "--npu-ops" becomes "npu_ops".

    Command lines stay unchanged.
    """
    text = _FILES.sub("", text)
    parts, at = [], 0
    for command in _COMMAND.finditer(text):
        parts += [_arguments(text[at : command.start()]), command[0]]
        at = command.end()
    return "".join((*parts, _arguments(text[at:])))


def _arguments(text: str) -> str:
    return _OPTION.sub(lambda found: _ARGUMENTS.get(found[1], found[1].replace("-", "_")), text)


def speaks_python(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that its error messages name arguments instead of options."""

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except ArmExtError as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (in_python(error.args[0]), *error.args[1:])
            raise

    return called
