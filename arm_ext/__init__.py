# SPDX-License-Identifier: Apache-2.0
"""Compile models for Arm with TVM, and run them on boards.

The functions mirror the commands one to one; each is imported when it is first used, since TVM takes a second.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arm_ext.compiler import CompileResult, compile
    from arm_ext.package import Package, load_package

__version__ = "0.1.0"

__all__ = ["CompileResult", "Package", "__version__", "compile", "load_package"]

_HOME = {
    "CompileResult": "arm_ext.compiler",
    "compile": "arm_ext.compiler",
    "Package": "arm_ext.package",
    "load_package": "arm_ext.package",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'arm_ext' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
