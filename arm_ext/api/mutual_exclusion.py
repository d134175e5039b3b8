# SPDX-License-Identifier: Apache-2.0
"""Serialise calls that build Relax modules: TVM's BlockBuilder keeps one stack of builders for the whole process."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOCK = threading.RLock()


def serial(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let one thread at a time run the functions that are decorated; others wait."""

    @functools.wraps(function)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _LOCK:
            return function(*args, **kwargs)

    return alone
