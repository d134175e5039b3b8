# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulates of one inference by source node, for reports and benchmarks."""

import math
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from relay_passes.ir.calls import CALL_TIR, name_of
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of
from schedules.numerics import blocks, recurrent

_CONV = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_CONV_TRANSPOSE = ("relax.nn.conv1d_transpose", "relax.nn.conv2d_transpose", "relax.nn.conv3d_transpose")


def count_macs(mod: tvm.IRModule) -> dict[str, int]:
    """Return source node → MACs of convolutions, matrix products and recurrent layers (static shapes).

    Both branches of an `if` are counted, and one round of a loop.
    """
    macs: dict[str, int] = {}
    for _, func in relax_functions(mod):
        for binding in bindings_of(func):
            call = binding.value
            if isinstance(call, relax.Call) and (count := _call_macs(mod, call)):
                for source in sources_of(call)[:1]:
                    macs[source] = macs.get(source, 0) + count
    return macs


def _call_macs(mod: tvm.IRModule, call: relax.Call) -> int:
    name, attributes = getattr(call.op, "name", ""), _attributes(mod, call)
    if attributes.get("numerics", "") in (blocks.NAME, blocks.FLOAT):
        return math.prod(_shape(call)) * int(attributes["depth"])
    if _walks(mod, call):
        # For each product with the data, [steps, batch, gates * hidden], there is a product with the state of equal
        # size.
        products, weights = call.args[1].fields[:2]
        return math.prod(_shape(products)) * _shape(weights)[0]
    if name == "relax.matmul":
        return math.prod(_shape(call)) * _shape(call.args[0])[-1]
    if name in _CONV:
        weights, layout = _shape(call.args[1]), str(call.attrs.kernel_layout)
        return math.prod(_shape(call)) * math.prod(weights) // weights[layout.index("O")]
    if name in _CONV_TRANSPOSE:
        # Every input element is multiplied by the weights of its channel: output channels of a group times window.
        weights, layout = _shape(call.args[1]), str(call.attrs.kernel_layout)
        return math.prod(_shape(call.args[0])) * math.prod(weights) // weights[layout.index("I")]
    return 0


def count_steps(mod: tvm.IRModule) -> int:
    """Return the number of steps that a module's recurrent layers compute one after the other."""
    calls = [binding.value for _, func in relax_functions(mod) for binding in bindings_of(func)]
    return sum(_shape(call.args[1].fields[0])[0] for call in calls if _walks(mod, call))


def _walks(mod: tvm.IRModule, call: relax.Expr) -> bool:
    """Whether a call is a recurrent layer."""
    return _attributes(mod, call).get("numerics", "") in recurrent.NAMES


def _attributes(mod: tvm.IRModule, call: relax.Expr) -> Mapping[str, Any]:
    """Return the attributes of the routine that a call computes; none of another call."""
    attributes = mod[call.args[0]].attrs if name_of(call) == CALL_TIR else None
    return {} if attributes is None else attributes


def _shape(expr: relax.Expr) -> list[int]:
    return [int(dim) for dim in expr.ty.shape.values]
