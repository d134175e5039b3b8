# SPDX-License-Identifier: Apache-2.0
"""Variants of a model for each level of a family of cores, merged into one module that dispatches by CPU."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import tirx

from arm_ext.pipeline.codegen import LEVEL
from arm_ext.pipeline.memory import weight_bytes
from arm_ext.pipeline.phases import PhaseResult
from arm_ext.shapes.variants import MergedVariants, Variant, merge_variants
from arm_ext.target.family import FamilyLevel
from relay_passes.programs.cpu_dispatch import dispatch_by_cpu
from relay_passes.programs.merge_modules import merge_modules


@dataclass(frozen=True)
class CompiledLevel:
    """A level of a family with the variants that were compiled for it; kernels are named as in the merged module."""

    level: FamilyLevel
    merged: MergedVariants


def run_levels(
    variants: Sequence[Variant],
    levels: Sequence[FamilyLevel],
    progress: Callable[[str], None],
) -> tuple[tuple[CompiledLevel, ...], MergedVariants]:
    """Run the phases of a model's variants for each level; merge the results into one module.

    Returns:
        The levels, and the variants of the newest level with the merged module of all levels.
    """
    parts: dict[str, MergedVariants] = {}
    for level in levels:
        own = [each.with_profile(level.profile) for each in variants]
        for variant in own:
            variant.run(None, progress)
        parts[level.name] = merge_variants(own)
        for variant in own if level is not levels[-1] else ():
            variant.prepared = None
            variant.release_weights()
    names = [_symbol(level.name) for level in levels]
    merged = merge_modules({_symbol(name): _marked(each.result.mod, name) for name, each in parts.items()})
    planned = dispatch_by_cpu(merged.mod, names, [level.flags for level in levels])
    for name, part in parts.items():
        parts[name] = replace(part, result=_renamed(part, name, merged.names[_symbol(name)]))
        for variant in part.variants:
            variant.result = replace(variant.result, mod=tvm.IRModule({}))
    compiled = tuple(CompiledLevel(level, parts[level.name]) for level in levels)
    newest = parts[levels[-1].name]
    largest = max((each.memory for each in parts.values()), key=lambda memory: memory.peak_activation_bytes)
    memory = largest.model_copy(update={"weight_bytes": weight_bytes(merged.mod)})
    return compiled, replace(newest, result=replace(newest.result, mod=planned), memory=memory)


def _symbol(level: str) -> str:
    """Return the name of the Relax function that is compiled for a level."""
    return f"main_{level.replace('-', '_')}"


def _marked(mod: tvm.IRModule, level: str) -> tvm.IRModule:
    """Return a copy of a module in which each kernel has the attribute `LEVEL`."""
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            out.update_func(gvar, func.with_attr(LEVEL, level))
    return out


def _renamed(part: MergedVariants, level: str, names: Mapping[str, str]) -> PhaseResult:
    """Return the result of a level without the module, with kernels named as in the merged module."""

    def name(symbol: str) -> str:
        # A kernel that became a view has no function in the merged module.
        return names.get(symbol, f"{level}.{symbol}")

    result = part.result
    kernels = (kernel.model_copy(update={"symbol": name(kernel.symbol)}) for kernel in result.kernels)
    calls = (replace(call, symbol=name(call.symbol)) for call in result.calls)
    return replace(result, mod=tvm.IRModule({}), kernels=tuple(kernels), calls=tuple(calls))
