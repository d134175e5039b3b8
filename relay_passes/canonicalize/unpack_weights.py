# SPDX-License-Identifier: Apache-2.0
"""Weights that no kernel reads as integers beside float data become float constants, which take four times the memory.

    op(x, dequantize(Q, s, z))    →    op(x, W)

It runs after all rules that keep integers. Otherwise weights would be dequantised at each run, and operators would take
kernels for operands that are computed.
"""

from tvm import IRModule
from tvm.ir import GenericConst

from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.ir.calls import name_of
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of
from schedules.diagnostic import Diagnostic

_MOVED = ("relax.permute_dims", "relax.reshape", "relax.strided_slice")
"""Operators that only move elements of weights."""


def unpack_weights(mod: IRModule) -> tuple[IRModule, tuple[Diagnostic, ...]]:
    """Rewrite every function of `mod`.

    Returns:
        The module, the same object if it has no such weights; and each operator that reads weights of several axes that
        became float.
    """
    found: dict[tuple[str, ...], Diagnostic] = {}
    has_any = False
    for _, func in relax_functions(mod):
        unpacked: dict[object, GenericConst] = {}
        for binding in bindings_of(func):
            value, name = binding.value, name_of(binding.value)
            if name == "relax.dequantize" and all(isinstance(arg, GenericConst) for arg in value.args):
                unpacked[binding.var] = value.args[0]
                has_any = True
                continue
            read = [unpacked[arg] for arg in getattr(value, "args", ()) if arg in unpacked]
            if read and name in _MOVED:
                unpacked[binding.var] = read[0]
                continue
            for held in read:
                if len(held.ty.shape) > 1:
                    nodes = sources_of(value)
                    found[nodes] = _diagnostic(name, str(held.ty.dtype), nodes)
    return (fold_constants(mod, keep=()) if has_any else mod), tuple(found.values())


def _diagnostic(name: str, dtype: str, nodes: tuple[str, ...]) -> Diagnostic:
    operator = name.removeprefix("relax.")
    return Diagnostic(
        f"no kernel reads {dtype} weights beside its data, which is float", nodes=nodes, operator=operator
    )
