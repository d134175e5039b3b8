# SPDX-License-Identifier: Apache-2.0
"""The phase `fuse`: composites of an anchor and the longest chain of epilogue steps that a kernel can compute.

    y = matmul(x, W); z = add(y, b); r = relu(z)    →    r = arm_linear_fc(x)
    with the private function arm_linear_fc, attributes Composite="arm.linear" and Primitive, which holds the three
    calls and the constants W and b

The caller gives the composites as data; `grouping` finds where they begin and end.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tvm import IRModule, relax
from tvm.ir import Call, Var
from tvm.relax.analysis import free_vars, remove_all_unused
from tvm.tirx import PrimFunc
from tvm_ffi import structural_map

from relay_passes.fusion.composites import CompositeSpec
from relay_passes.fusion.grouping import Group, Grouping, group
from relay_passes.ir.sources import identifier, relax_functions, with_source
from relay_passes.rewriter.record import Record
from relay_passes.rewriter.rule import Explanation
from schedules.diagnostic import Diagnostic


class Costs(Protocol):
    """The estimates that decide whether a step is fused."""

    def dearer(
        self, composite: relax.Function, routines: Mapping[str, PrimFunc]
    ) -> tuple[str, str, str] | None:
        """Return why the last call of a composite is cheaper in a separate kernel, or None.

        Args:
            composite: The composite, with that call in it.
            routines: Routines that it calls by call_tir, by name.

        Returns:
            Reason, limit and actual value.
        """


def fuse(
    mod: IRModule,
    vocabulary: Sequence[CompositeSpec],
    costs: Costs | None = None,
    record: Record | None = None,
) -> IRModule:
    """Move each composite of `mod` into a private function of its own and call that.

    Args:
        mod: Canonical; every call named.
        vocabulary: The composites, the preferred first where two have the same anchor.
        costs: Decides on steps that are weighed; without it none is taken.
        record: Takes note of what was formed and what was not, if given.

    Returns:
        The module. A call of a composite carries the source names of all the calls inside.
    """
    builder = relax.BlockBuilder(mod)
    routines = routines_of(mod)
    groupings: list[Grouping] = []
    functions = {gvar.name_hint: f for gvar, f in mod.functions_items() if isinstance(f, PrimFunc)}

    def weigh(found: Group) -> Diagnostic | None:
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


def _note(record: Record, groupings: Sequence[Grouping], vocabulary: Sequence[CompositeSpec]) -> None:
    """Record for each composite where it was formed, and why it takes in no more, or why there is none."""
    for spec in vocabulary:
        formed = [found for grouping in groupings for found in grouping.groups if found.spec is spec]
        left = [why for grouping in groupings for of, why in grouping.left if of is spec]
        ends = (*(found.end for found in formed), *left)
        record.passes[pass_name(spec)] = Explanation(tuple(found.nodes for found in formed), ends)


def pass_name(spec: CompositeSpec) -> str:
    """Return the name under which a record lists the composite: "fuse:linear" for "arm.linear"."""
    return f"fuse:{spec.name.removeprefix('arm.')}"


def routines_of(mod: IRModule) -> dict[str, str]:
    """Return, by name, what each PrimFunc that a numerics defines computes, such as "qdq.requantize"."""
    return {
        gvar.name_hint: str(func.attrs["numerics"])
        for gvar, func in mod.functions_items()
        if isinstance(func, PrimFunc) and "numerics" in func.attrs
    }


def _function(builder: relax.BlockBuilder, found: Group) -> tuple[relax.Function, list[Var]]:
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
    # The attribute `sources` keeps equal composites of different nodes from being merged into one function.
    attributes = {"Composite": found.spec.name, "Primitive": True, "sources": list(found.nodes)}
    return builder.normalize(func).with_attrs(attributes), operands


def _outlined(builder: relax.BlockBuilder, found: Group) -> Call:
    """Add the group's function to the module; returns the call that takes the group's place."""
    func, operands = _function(builder, found)
    names, root = found.nodes, found.bindings[-1].var
    symbol = builder.add_func(func, identifier(f"{found.spec.name}/{names[0] if names else root.name}"))
    return with_source(Call(symbol, operands, ret_ty=root.ty), names)


def _with_calls(func: relax.Function, calls: dict[Var, Call]) -> relax.Function:
    def put(binding: relax.VarBinding) -> relax.VarBinding:
        return relax.VarBinding(binding.var, calls.get(binding.var, binding.value), binding.span)

    return remove_all_unused(structural_map(func, [(relax.VarBinding, put)]))
