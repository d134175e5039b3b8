# SPDX-License-Identifier: Apache-2.0
"""Models that decide at run time, as functions: straight-line ones, and those that join them."""

from itertools import chain, count

import tvm

from relay_passes.ir.sources import identifier
from relay_passes.programs.merge_modules import MAIN, add_functions, merge_modules


class Functions:
    """The functions of a model so far.

    Attributes:
        straight: Name → module, whose `main` is a function without decisions.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.straight: dict[str, tvm.IRModule] = {}
        self._joining: dict[str, tvm.ir.BaseFunc] = {}
        self._symbols = {MAIN}

    def module(self) -> tvm.IRModule:
        """All of them."""
        if not self._joining:
            return self.straight[MAIN]
        mod = merge_modules(self.straight, reserved=self._joining).mod
        add_functions(mod, self._joining)
        return mod

    def symbol(self, node: str, role: str) -> str:
        """A name for a function."""
        base = f"{identifier(node)}_{role}"
        name = next(n for n in chain([base], (f"{base}_{k}" for k in count(2))) if n not in self._symbols)
        self._symbols.add(name)
        return name

    def put(self, symbol: str, func: tvm.ir.BaseFunc) -> None:
        """Take in a function that joins others, or what one calls beside."""
        self._joining[symbol] = func
