# SPDX-License-Identifier: Apache-2.0
"""Source names for a module that an importer wrote node by node."""

from collections.abc import Mapping

import tvm
from tvm import relax

from relay_passes.ir.sources import name_bindings


def name_calls(mod: tvm.IRModule, last_binding: Mapping[relax.Var, str]) -> tvm.IRModule:
    """Give each binding of `main` the name of the node whose last binding follows it.

    Args:
        mod: Module in A-normal form, its bindings in the order of the source's nodes.
        last_binding: The variable of a node's last binding → the node's name.
    """
    names: dict[relax.Var, str] = {}
    pending: list[relax.Var] = []
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    for binding in bindings:
        pending.append(binding.var)
        if binding.var in last_binding:
            names.update((var, last_binding[binding.var]) for var in pending)
            pending = []
    # Trailing bindings unpack or return the last node's values.
    final = next(reversed(names.values()), "output")
    names.update((var, final) for var in pending)
    mod["main"] = name_bindings(mod["main"], names)
    return mod
