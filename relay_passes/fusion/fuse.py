# SPDX-License-Identifier: Apache-2.0
"""The phase `fuse`: composites of an anchor and the longest chain of epilogue steps that a kernel can compute.

    y = matmul(x, W); z = add(y, b); r = relu(z)    →    r = arm_linear_fc(x)
    with the private function arm_linear_fc, attributes Composite="arm.linear" and Primitive, which holds the three
    calls and the constants W and b

The caller passes the specs of composites as data; `grouping` finds the composites in a function.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tvm import IRModule, relax
from tvm.ir import Call, Var
from tvm.relax.analysis import free_vars, remove_all_unused
from tvm.tirx import PrimFunc
from tvm_ffi import structural_map

from relay_passes.fusion.composites import CompositeSpec
from relay_passes.fusion.grouping import FusionGroup, Grouping, group
from relay_passes.ir.sources import identifier, relax_functions, with_source
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Explanation
from schedules.diagnostic import Diagnostic


class FusionCosts(Protocol):
    """Interface of the estimates that decide whether a `weighed` step is fused."""

    def dearer(
        self, composite: relax.Function, routines: Mapping[str, PrimFunc]
    ) -> tuple[str, str, str] | None:
        """Return why the last call of a composite is cheaper in a separate kernel; None if fusing it is cheaper.

        Args:
            composite: The composite function, including this call.
            routines: Routines that it calls by call_tir, by name.

        Returns:
            Reason, limit and actual value.
        """


def fuse(
    mod: IRModule,
    vocabulary: Sequence[CompositeSpec],
    costs: FusionCosts | None = None,
    record: RewriteRecord | None = None,
) -> IRModule:
    """Move each composite of `mod` into a separate private function, and call this function.

    Args:
        mod: Module in canonical form, with source names on all calls.
        vocabulary: The specs of composites, in order of preference for specs with the same anchor.
        costs: Estimates for `weighed` steps; if None, no such step is fused.
        record: Records composites and rejections, unless None.

    Returns:
        The module. The call of a composite has the source names of all calls in the composite.
    """
    builder = relax.BlockBuilder(mod)
    routines = routines_of(mod)
    groupings: list[Grouping] = []
    functions = {gvar.name_hint: f for gvar, f in mod.functions_items() if isinstance(f, PrimFunc)}

    def weigh(found: FusionGroup) -> Diagnostic | None:
        answer = None if costs is None else costs.dearer(_function(builder, found)[0], functions)
        return None if answer is None else Diagnostic.of(*answer)

    for gv, func in relax_functions(mod):
        if func.attrs and "Primitive" in func.attrs:
            continue
        groupings.append(group(func, vocabulary, routines, weigh if costs else None))
        calls: dict[Var, Call] = {}
        for found in groupings[-1].groups:
            calls[found.bindings[-1].var] = _outlined(builder, found)
        if calls:
            builder.update_func(gv, _with_calls(func, calls))
    if record is not None:
        _note(record, groupings, vocabulary)
    return builder.get()


def _note(record: RewriteRecord, groupings: Sequence[Grouping], vocabulary: Sequence[CompositeSpec]) -> None:
    """Record, for each spec, the formed composites, and why no further call (or no composite) was possible."""
    for spec in vocabulary:
        formed = [found for grouping in groupings for found in grouping.groups if found.spec is spec]
        left = [why for grouping in groupings for of, why in grouping.left if of is spec]
        ends = (*(found.end for found in formed), *left)
        record.passes[pass_name(spec)] = Explanation(tuple(found.nodes for found in formed), ends)


def pass_name(spec: CompositeSpec) -> str:
    """Return the name of a composite in a record: "fuse:linear" for "arm.linear"."""
    return f"fuse:{spec.name.removeprefix('arm.')}"


def routines_of(mod: IRModule) -> dict[str, str]:
    """Return the attribute "numerics", such as "qdq.requantize", of each routine of a module, by function name."""
    return {
        gvar.name_hint: str(func.attrs["numerics"])
        for gvar, func in mod.functions_items()
        if isinstance(func, PrimFunc) and "numerics" in func.attrs
    }


def _function(builder: relax.BlockBuilder, found: FusionGroup) -> tuple[relax.Function, list[Var]]:
    """Return the group's function, and the arguments of its call."""
    inside = [binding.var for binding in found.bindings]
    operands = [
        v for v in dict.fromkeys(v for b in found.bindings for v in free_vars(b.value)) if v not in inside
    ]
    root = inside[-1]
    copies = {var: Var(var.name, var.ty) for var in (*operands, root)}
    copies |= {var: relax.DataflowVar(var.name, var.ty) for var in inside[:-1]}
    block = relax.DataflowBlock(list(found.bindings))
    block = structural_map(block, [(Var, lambda var: copies.get(var, var))])
    body = relax.SeqExpr([block], copies[root])
    func = relax.Function([copies[var] for var in operands], body, root.ty)
    # The attribute `sources` prevents equal composites of different nodes from being merged into one function.
    attributes = {"Composite": found.spec.name, "Primitive": True, "sources": list(found.nodes)}
    return builder.normalize(func).with_attrs(attributes), operands


def _outlined(builder: relax.BlockBuilder, found: FusionGroup) -> Call:
    """Add the group's function to the module; return the call that replaces the group."""
    func, operands = _function(builder, found)
    names, root = found.nodes, found.bindings[-1].var
    symbol = builder.add_func(func, identifier(f"{found.spec.name}/{names[0] if names else root.name}"))
    return with_source(Call(symbol, operands, ret_ty=root.ty), names)


def _with_calls(func: relax.Function, calls: dict[Var, Call]) -> relax.Function:
    def put(binding: relax.VarBinding) -> relax.VarBinding:
        return relax.VarBinding(binding.var, calls.get(binding.var, binding.value), binding.span)

    return remove_all_unused(structural_map(func, [(relax.VarBinding, put)]))
