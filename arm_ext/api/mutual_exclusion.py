# SPDX-License-Identifier: Apache-2.0
"""Serialises calls that build Relax modules: TVM's BlockBuilder keeps one stack of builders for the whole process."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOCK = threading.RLock()


def serial(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a decorated function; of all functions with this decorator, one runs at a time, and other threads wait."""

    @functools.wraps(function)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _LOCK:
            return function(*args, **kwargs)

    return alone
