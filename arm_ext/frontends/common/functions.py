# SPDX-License-Identifier: Apache-2.0
"""The functions of a model with control flow: straight-line ones, and those that branch and call."""

from itertools import chain, count

import tvm

from relay_passes.ir.sources import identifier
from relay_passes.programs.merge_modules import MAIN, add_functions, merge_modules


class Functions:
    """The functions of a model under import.

    Attributes:
        straight: Name → module, whose `main` is a function without decisions.
    """

    def __init__(self) -> None:
        """Begin without functions."""
        self.straight: dict[str, tvm.IRModule] = {}
        self._joining: dict[str, tvm.ir.BaseFunc] = {}
        self._symbols = {MAIN}

    def module(self) -> tvm.IRModule:
        """Return all functions as one module."""
        if not self._joining:
            return self.straight[MAIN]
        mod = merge_modules(self.straight, reserved=self._joining).mod
        add_functions(mod, self._joining)
        return mod

    def symbol(self, node: str, role: str) -> str:
        """Return an unused name for a function."""
        base = f"{identifier(node)}_{role}"
        name = next(n for n in chain([base], (f"{base}_{k}" for k in count(2))) if n not in self._symbols)
        self._symbols.add(name)
        return name

    def put(self, symbol: str, func: tvm.ir.BaseFunc) -> None:
        """Add a function that branches or calls others, or a kernel that it calls."""
        self._joining[symbol] = func
