# SPDX-License-Identifier: Apache-2.0
"""Records of the kernels of model.so, and of their calls in execution order, with source nodes and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from arm_ext.common.json_record import JsonRecord
from schedules.diagnostic import Diagnostic

CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "QUANTIZE", "DEQUANTIZE", "quantize", "dequantize")
"""Operators of source models between float and integers: they are part of the operators around them."""

CHECK = "check"
"""The name that reports give the code that checks indices before another kernel reads by them."""


class OtherChoice(JsonRecord):
    """Another kernel that supports a workload, or the chosen kernel with other parameters."""

    kernel: str = Field(description="Name of the kernel.")
    params: dict[str, Any] = Field(
        description="Parameters of the kernel; of the chosen kernel those that differ."
    )
    selection_cost: int = Field(description="Selection cost of one call on one core, in cycles.")
    lost: str = Field(default="", description="Why it was not chosen.")

    def describe_params(self) -> str:
        """Return the parameters, such as "rows 4, vectors 2"."""
        return ", ".join(f"{name} {value}" for name, value in self.params.items())


class KernelCall(JsonRecord):
    """One kernel of model.so and the source nodes computed in it."""

    symbol: str = Field(description="Function of model.so.")
    sources: tuple[str, ...] = Field(description="Source nodes computed by all its calls.")
    kernel: str = Field(description="Name of the kernel, or of the family of loops.")
    numerics: str = Field(
        description="Numerics of the kernel: qdq, tosa, integer, float, or several of them."
    )
    reason: str = Field(description="What the workload was recognised as, and why this kernel was chosen.")
    rejected: tuple[Diagnostic, ...] = Field(
        default=(), description="Kernels that did not take the workload and might have."
    )
    params: dict[str, Any] = Field(default={}, description="Parameters of a hand-written kernel.")
    selection_cost: int | None = Field(
        default=None,
        description="Cycles of one call on one core by the formula that kernels are chosen by; null for loops that "
        "have none.",
    )
    others: tuple[OtherChoice, ...] = Field(
        default=(),
        description="The other kernels that take the workload, then this kernel with other parameters, each the "
        "cheapest first.",
    )
    tuned: str = Field(
        default="", description="Record of the tuning database that its parameters are from, else empty."
    )
    indices: dict[str, str] = Field(
        default={},
        description="Source node → how indices that are known only at run time are kept in bounds.",
    )
    divided: bool = Field(default=False, description="Whether the runtime's threads divide a call.")
    moves: bool = Field(default=False, description="Whether it only copies or rearranges elements.")

    @property
    def other_kernels(self) -> tuple[OtherChoice, ...]:
        """Other kernels that support the workload, the cheapest first."""
        return tuple(other for other in self.others if other.kernel != self.kernel)


@dataclass(frozen=True)
class CallSite:
    """A call of a kernel after the phase `lower`.

    Attributes:
        symbol: The kernel's function.
        sources: Source nodes computed in this call.
        output: Shape and dtype of the result, such as "1x32x32x16 int8".
        elements: Number of elements of the results.
        read: Bytes of the operands, weights among them.
        written: Bytes of the results.
        function: Function that the call is in: "" for `main`; else an NPU region, a branch, or the body of a
            loop.
        result: A name for the result of the call.
        reads: `result` of the calls in the same module that it reads from.
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
        """Return the call as it is named after its module was merged into another one."""
        return replace(
            self,
            symbol=symbol,
            function="/".join(filter(None, (function, self.function))),
            result=f"{function}/{self.result}",
            reads=tuple(f"{function}/{name}" for name in self.reads),
        )


class CallRow(JsonRecord):
    """One call of a kernel. Calls are listed in execution order."""

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
    selection_cost: int = Field(
        description="Selection cost of one call on one core, in cycles: a formula of the kernel's, not a measurement."
    )
    cycles_with_caches: int = Field(
        description="Estimated cycles of one call on one core: its selection cost times the core's ratio of code to "
        "formula, and the time in which caches fetch its operands. `profile` has the same figure of the code as it "
        "runs.",
    )
    bytes: int = Field(description="Bytes read and written, weights among them.")
    written: int = Field(default=0, description="Bytes of the results.")
    reads: tuple[int, ...] = Field(
        default=(), description="Calls whose results it reads: their places in this list, from 0."
    )
    divided: bool = Field(default=False, description="Whether the runtime's threads divide a call.")
    moves: bool = Field(default=False, description="Whether the call only copies or rearranges elements.")
    function: str = Field(
        default="",
        description="Part of the model in which the call stands: empty, a region for an NPU whose fallback on the CPU "
        "the call belongs to, a branch, or the body of a loop.",
    )


@dataclass(frozen=True)
class SourceNodes:
    """The source nodes of a model, with their operators and costs.

    Attributes:
        kinds: Source node → operator.
        macs: Source node → multiply-accumulates of one inference.
    """

    kinds: Mapping[str, str]
    macs: Mapping[str, int]

    def anchor(self, sources: Sequence[str]) -> str:
        """Return the source node by which a group is named: the one with the most MACs, or else the first operator."""
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
        """Return the operators of a group's source nodes, except the anchor's, in the source's order."""
        anchor = self.anchor(sources)
        return tuple(self.kinds[name] for name in sources if name != anchor and self.is_operator(name))
