# SPDX-License-Identifier: Apache-2.0
"""Source names for the bindings of a function that an importer emitted node by node."""

from collections.abc import Mapping

from tvm import relax

from relay_passes.ir.sources import bindings_of, name_bindings


def name_calls(func: relax.Function, last_binding: Mapping[relax.Var, str]) -> relax.Function:
    """Attach source names: each binding belongs to the node whose last binding is the next one at or after it.

    Args:
        func: Function in A-normal form, its bindings in the order of the source's nodes.
        last_binding: The variable of a node's last binding → the node's name.
    """
    names: dict[relax.Var, str] = {}
    pending: list[relax.Var] = []
    for binding in bindings_of(func):
        pending.append(binding.var)
        if binding.var in last_binding:
            names.update((var, last_binding[binding.var]) for var in pending)
            pending = []
    # Trailing bindings unpack or return the last node's values.
    final = next(reversed(names.values()), "output")
    names.update((var, final) for var in pending)
    return name_bindings(func, names)
