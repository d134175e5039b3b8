# SPDX-License-Identifier: Apache-2.0
"""Records of the kernels of model.so, and of their calls in execution order, with source nodes and costs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from schedules.generic import families
from schedules.select import KERNELS

UNSCHEDULED_CYCLES = 1.0
"""Of one multiply-accumulate, or one element, in plain loops: a load, a multiply-add and a step, on two pipes."""

CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "QUANTIZE", "DEQUANTIZE", "quantize", "dequantize")
"""Operators of source models between float and integers: they are part of the operators around them."""

CHECK = "check"
"""The kernel of what compares indices before another kernel reads by them."""

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


class Alternative(BaseModel):
    """A kernel that did not take a workload, with the constraint, its limit and the actual value."""

    model_config = ConfigDict(frozen=True)

    kernel: str
    reason: str


class RunnerUp(BaseModel):
    """What would run a workload if the kernel that does were not there, or had not these parameters."""

    model_config = ConfigDict(frozen=True)

    kernel: str
    params: dict[str, Any]
    selection_cost: int


class KernelCall(BaseModel):
    """One kernel of model.so and the source nodes computed in it.

    A kernel of ours has parameters and a selection cost, by which kernels are chosen: cycles of one call on one core,
    by a formula over the kernel's instructions. That is no measurement, and not what `bench` models of executed code.
    `tuned` names the record of a tuning database that its parameters are of.
    `indices` says by node what keeps indices in bounds that are known at run time alone.
    """

    model_config = ConfigDict(frozen=True)

    symbol: str
    sources: tuple[str, ...]
    kernel: str
    numerics: str
    reason: str
    rejected: tuple[Alternative, ...] = ()
    params: dict[str, Any] = {}
    selection_cost: int | None = None
    runner_up: RunnerUp | None = None
    tuned: str = ""
    indices: dict[str, str] = {}
    moves: bool = Field(default=False, description="Whether it only copies or rearranges elements.")

    def next_best(self) -> str:
        """Return the runner-up: its name, or the parameters that it has other ones of, and its cost."""
        if self.runner_up is None:
            return "-"
        own, other = self.params, self.runner_up.params
        changed = ", ".join(f"{name} {value}" for name, value in other.items() if own.get(name) != value)
        what = changed if self.runner_up.kernel == self.kernel else self.runner_up.kernel
        return f"{what}: {self.runner_up.selection_cost:,}"


@dataclass(frozen=True)
class CallSite:
    """A call of a kernel, as the phase `lower` leaves it.

    Attributes:
        symbol: The kernel's function.
        sources: Source nodes computed in this call.
        output: Shape and dtype of the result, such as "1x32x32x16 int8".
        elements: Number of elements of the results.
        read: Bytes of the operands, weights among them.
        written: Bytes of the results.
        function: Where the call stands: "" for `main`; else a region for an NPU, a branch, or a loop's body.
        result: A name for what it computes.
        reads: Of calls in the same module whose results it reads, these names.
    """

    symbol: str
    sources: tuple[str, ...]
    output: str
    elements: int
    read: int
    written: int
    function: str = ""
    result: str = ""
    reads: tuple[str, ...] = ()

    def moved_to(self, function: str, symbol: str) -> "CallSite":
        """Return the call as it stands in a module that this one became a part of."""
        return replace(
            self,
            symbol=symbol,
            function="/".join(filter(None, (function, self.function))),
            result=f"{function}/{self.result}",
            reads=tuple(f"{function}/{name}" for name in self.reads),
        )


class CallRow(BaseModel):
    """One call of a kernel. Calls are listed in execution order."""

    model_config = ConfigDict(frozen=True)

    symbol: str = Field(description="Function of model.so.")
    anchor: str = Field(
        description="Source node that names the call: the product, or else the first operator."
    )
    sources: tuple[str, ...] = Field(description="Every source node computed in the call.")
    operators: tuple[str, ...] = Field(
        description="Operators of the source nodes besides the anchor's; quantisation is left out."
    )
    output: str = Field(description='Shape and element type of the result, such as "1x32x32x16 int8".')
    kernel: str = Field(description="Name of the kernel, or of the family of loops.")
    macs: int = Field(description="Multiply-accumulates of one call.")
    cycles: int = Field(
        description="Estimated cycles of one call on one core; a formula of the kernel's, not a measurement."
    )
    bytes: int = Field(description="Bytes read and written, weights among them.")
    written: int = Field(default=0, description="Bytes of the results.")
    reads: tuple[int, ...] = Field(
        default=(), description="Calls whose results it reads: their places in this list, from 0."
    )
    moves: bool = Field(default=False, description="Whether the call only copies or rearranges elements.")
    function: str = Field(
        default="",
        description="Part of the model in which the call stands: empty, a region for an NPU whose fallback on the CPU "
        "the call belongs to, a branch, or the body of a loop.",
    )


@dataclass(frozen=True)
class SourceNodes:
    """The source nodes of a model: what they are and what they cost.

    Attributes:
        kinds: Source node → operator.
        macs: Source node → multiply-accumulates of one inference.
    """

    kinds: Mapping[str, str]
    macs: Mapping[str, int]

    def anchor(self, sources: Sequence[str]) -> str:
        """Return the source node that names a group: the one with the most MACs, or else the first operator."""
        if not sources:
            return "-"
        found = max(sources, key=lambda name: self.macs.get(name, 0))
        if self.macs.get(found):
            return found
        return next((name for name in sources if self.is_operator(name)), sources[0])

    def is_operator(self, name: str) -> bool:
        """Return whether a source node is more than a conversion between float and integers."""
        return name in self.kinds and self.kinds[name] not in CONVERSIONS

    def operators(self, sources: Sequence[str]) -> tuple[str, ...]:
        """Return the operators of a group's source nodes besides that of its anchor, in the source's order."""
        anchor = self.anchor(sources)
        return tuple(self.kinds[name] for name in sources if name != anchor and self.is_operator(name))


def call_rows(
    sites: Iterable[CallSite], kernels: Mapping[str, KernelCall], nodes: SourceNodes
) -> tuple[CallRow, ...]:
    """Return the rows of all calls; what needs no kernel, because it shares its input's bytes, has none."""
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
    rows = []
    for site, own, read in zip(found, macs, reads, strict=True):
        kernel = kernels[site.symbol]
        estimate = kernel.selection_cost
        rows.append(
            CallRow(
                symbol=site.symbol,
                anchor=nodes.anchor(site.sources),
                sources=site.sources,
                operators=nodes.operators(site.sources),
                output=site.output,
                kernel=kernel.kernel,
                macs=own,
                cycles=round(UNSCHEDULED_CYCLES * (own + site.elements)) if estimate is None else estimate,
                bytes=site.read + site.written,
                written=site.written,
                reads=read,
                moves=kernel.moves,
                function=site.function,
            )
        )
    return tuple(rows)


def _macs(sites: Sequence[CallSite], kernels: Mapping[str, KernelCall], macs: Mapping[str, int]) -> list[int]:
    """Return the multiply-accumulates of each call: those of a node are shared out among the products that hold it."""
    holders: dict[str, list[int]] = {}
    for index, site in enumerate(sites):
        for name in site.sources:
            if macs.get(name):
                holders.setdefault(name, []).append(index)
    found = [0] * len(sites)
    for name, indices in holders.items():
        products = [i for i in indices if kernels[sites[i].symbol].kernel not in _WITHOUT_PRODUCTS] or indices
        costs = [kernels[sites[i].symbol].selection_cost or sites[i].elements for i in products]
        for index, part in zip(products, _shares(macs[name], costs), strict=True):
            found[index] += part
    return found


def _shares(total: int, weights: Collection[int]) -> list[int]:
    """Return `total` in parts in proportion to weights; the parts sum up to it."""
    whole, before, given = sum(weights) or 1, 0, 0
    parts = []
    for weight in weights:
        before += weight
        parts.append(total * before // whole - given)
        given += parts[-1]
    if parts:
        parts[-1] += total - given
    return parts
