# SPDX-License-Identifier: Apache-2.0
"""The rows of all kernel calls: their operators, multiply-accumulates and costs."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from arm_ext.report.caches import CallOperands, operand_cycles
from arm_ext.report.calls import CHECK, CallRow, CallSite, KernelCall, SourceNodes
from schedules.cores import Core
from schedules.generic import families
from schedules.select import KERNELS

UNSCHEDULED_CYCLES = 1.0
"""Cycles per multiply-accumulate or element in unscheduled loops: a load, a multiply-add and a step, on two pipes."""

_WITHOUT_PRODUCTS = {
    CHECK,
    *families.NAMES,
    *(
        kernel.NAME
        for kernel in KERNELS
        if {"elementwise", "normalization", "softmax"} & {*str(getattr(kernel, "__name__", "")).split(".")}
    ),
}
"""Kernels that compute no multiply-accumulates, by their families' folders."""


def call_rows(
    sites: Iterable[CallSite], kernels: Mapping[str, KernelCall], nodes: SourceNodes, core: Core
) -> tuple[CallRow, ...]:
    """Return a row for each call, except views, which share their input's memory and need no kernel.

    Args:
        sites: Calls in the order of execution.
        kernels: Symbol → the kernel.
        nodes: Source nodes, with their operators and multiply-accumulates.
        core: Core whose caches hold the operands.
    """
    found: list[CallSite] = []
    made_by: dict[str, tuple[int, ...]] = {}
    reads: list[tuple[int, ...]] = []
    for site in sites:
        read = tuple(sorted({index for name in site.reads for index in made_by.get(name, ())}))
        if site.symbol in kernels and kernels[site.symbol].kernel != "view":
            made_by[site.result] = (len(found),)
            found.append(site)
            reads.append(read)
        else:
            made_by[site.result] = read
    macs = _macs(found, kernels, nodes.macs)
    fetched = operand_cycles(_operands(found, reads), core)
    rows = []
    for site, own, read, fetching in zip(found, macs, reads, fetched, strict=True):
        kernel = kernels[site.symbol]
        estimate = kernel.selection_cost
        if estimate is None:
            estimate = round(UNSCHEDULED_CYCLES * (own + site.elements))
        rows.append(
            CallRow(
                symbol=site.symbol,
                anchor=nodes.anchor(site.sources),
                sources=site.sources,
                operators=nodes.operators(site.sources),
                output=site.output,
                kernel=kernel.kernel,
                macs=own,
                selection_cost=estimate,
                cycles_with_caches=round(
                    estimate * core.formula_ratio(floats=kernel.numerics == "float") + fetching
                ),
                bytes=site.read + site.written,
                written=site.written,
                reads=read,
                moves=kernel.moves,
                function=site.function,
            )
        )
    return tuple(rows)


def _operands(sites: Sequence[CallSite], reads: Sequence[tuple[int, ...]]) -> list[CallOperands]:
    found = []
    for site, read in zip(sites, reads, strict=True):
        results = sum(sites[index].written for index in read)
        found.append(CallOperands(max(0, site.read - results), read, site.written))
    return found


def _macs(sites: Sequence[CallSite], kernels: Mapping[str, KernelCall], macs: Mapping[str, int]) -> list[int]:
    """Return the multiply-accumulates of each call: those of a node are distributed over its products."""
    holders: dict[str, list[int]] = {}
    for index, site in enumerate(sites):
        for name in site.sources:
            if macs.get(name):
                holders.setdefault(name, []).append(index)
    found = [0] * len(sites)
    for name, indices in holders.items():
        products = [i for i in indices if _has_products(kernels[sites[i].symbol])] or indices
        costs = [kernels[sites[i].symbol].selection_cost or sites[i].elements for i in products]
        for index, part in zip(products, _shares(macs[name], costs), strict=True):
            found[index] += part
    return found


def _has_products(kernel: KernelCall) -> bool:
    return not kernel.moves and kernel.kernel not in _WITHOUT_PRODUCTS


def _shares(total: int, weights: Collection[int]) -> list[int]:
    """Return `total` split in proportion to weights; the parts sum up to it."""
    whole, before, given = sum(weights) or 1, 0, 0
    parts = []
    for weight in weights:
        before += weight
        parts.append(total * before // whole - given)
        given += parts[-1]
    if parts:
        parts[-1] += total - given
    return parts
