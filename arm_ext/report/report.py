# SPDX-License-Identifier: Apache-2.0
"""CompileReport: where and by which kernel each source node is computed, and why not elsewhere."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from pydantic import ConfigDict, Field

from arm_ext.common.json_record import JsonRecord
from arm_ext.common.text import counted
from arm_ext.package.manifest import Calibration, Memory
from arm_ext.report.call_rows import call_rows
from arm_ext.report.calls import CHECK, CallRow, CallSite, KernelCall, SourceNodes
from arm_ext.report.npu import NpuRegion, NpuReport, Where, fallback_name
from arm_ext.target.published_times import TimeInterval, time_interval
from relay_passes import RemovedChannels
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.generic import families
from schedules.generic.families import GENERIC

SCHEMA_VERSION: Literal[6] = 6


class NodeRow(JsonRecord):
    """One source node. A node that the NPU computes has kernels on the CPU, too; "cpu+npu" means partly on each."""

    model_config = ConfigDict(allow_inf_nan=False)

    source: str = Field(description="Name of the source node.")
    op: str = Field(description="Operator of the node, as the model's format names it.")
    where: Where | Literal["folded"] = Field(
        description='Where it is computed; "folded" means at compile time, or not at all.'
    )
    symbols: tuple[str, ...] = Field(description="Functions of model.so that compute it.")
    kernel: str = Field(description="Name of the kernel that describes it best.")
    numerics: str = Field(description="Numerics of that kernel.")
    mac_share: float = Field(description="Share of the model's multiply-accumulates, from 0 to 1.")
    reason: str = Field(description="Why it is computed there and by this kernel.")


class PackageFacts(JsonRecord):
    """Facts about the complete package."""

    features: tuple[str, ...] = Field(
        description="Instruction-set extensions of the target, by LLVM's names."
    )
    levels: tuple[str, ...] = Field(
        default=(),
        description="Of a package for a family of cores, the instruction-set levels that it chooses from when it "
        "runs, the oldest first.",
    )
    level: str | None = Field(
        default=None,
        description="The one of `levels` that this report is of; null for a package of one core.",
    )
    program: str = Field(description='File with the machine code: "model.so", or a static library.')
    program_bytes: int = Field(description="Size of that file.")
    memory: Memory = Field(description="Memory of one inference, and the bytes of the weights.")
    state_bytes: int = Field(
        default=0,
        description="Bytes of the states that stay from one step to the next, such as keys and values.",
    )
    numerics: str = Field(description='Numerics of quantised operators: "qdq" or "tosa".')
    precision: str = Field(description='Dtype that float operators compute in: "fp32", "fp16" or "bf16".')
    samples: int = Field(
        description="Inferences that the rows of `calls` have to be repeated for, in the self-test."
    )
    classes: dict[str, tuple[str, ...]] = Field(
        default={},
        description="Output of a classifier → the labels of its classes: its columns are their scores, or its values "
        "are their numbers.",
    )


class CompileReport(JsonRecord):
    """The contents of report.json: what was compiled, and how."""

    schema_version: Literal[6] = Field(default=SCHEMA_VERSION, description="Version of this schema.")
    model: str = Field(description="Name of the model.")
    target: str = Field(description="Name of the target profile.")
    macs: int = Field(description="Multiply-accumulates of one inference.")
    nodes: tuple[NodeRow, ...] = Field(description="Every source node, in the source's order.")
    kernels: tuple[KernelCall, ...] = Field(description="Every kernel of model.so.")
    calls: tuple[CallRow, ...] = Field(default=(), description="Every call of a kernel, in execution order.")
    package: PackageFacts | None = Field(default=None, description="Sizes, memory and target of the package.")
    left_float: tuple[Diagnostic, ...] = Field(
        default=(), description="Operators of a quantised model that compute in float, and why."
    )
    unpacked: tuple[Diagnostic, ...] = Field(
        default=(),
        description="Operators whose integer weights became float, which takes more memory, and why.",
    )
    kept_layout: tuple[Diagnostic, ...] = Field(
        default=(),
        description="Operators that keep the model's layout where others have channels last, and why.",
    )
    removed_channels: tuple[RemovedChannels, ...] = Field(
        default=(),
        description="Channels of convolutions and matrix products that are not computed, as they are constant or "
        "nothing reads them, and what that saves; `macs` above are without them.",
    )
    kept_channels: tuple[Diagnostic, ...] = Field(
        default=(), description="Operators whose constant channels stay, and why."
    )
    npu: NpuReport | None = Field(
        default=None, description="Division of the model between NPU and CPU; null without an NPU."
    )
    time: TimeInterval | None = Field(
        default=None,
        description="Time of one inference on one core of the board that the target names, by estimate; null for other "
        "targets, and for a model with an NPU, branches or loops.",
    )
    calibration: Calibration | None = Field(
        default=None, description="How a float model was quantised by `compile`; null if it was not."
    )
    warnings: tuple[str, ...] = Field(default=(), description="Messages that a user should read.")

    def summary(self) -> str:
        """Return the kernel calls by kernel: "54 kernel calls: gemm_s8_mmla 34, depthwise_s8 17, ..."."""
        on_cpu = [call for call in self.calls if self.region_of(call) is None]
        count = Counter(call.kernel for call in on_cpu)
        by_kernel = ", ".join(f"{kernel} {n}" for kernel, n in count.most_common())
        return counted(len(on_cpu), "kernel call") + (f": {by_kernel}" if by_kernel else "")

    def region_of(self, call: CallRow) -> NpuRegion | None:
        """Return the NPU region whose computation on the CPU a call belongs to; None if there is none."""
        regions = self.npu.regions if self.npu else ()
        name = call.function.rpartition("/")[2]
        return next((region for region in regions if fallback_name(region.index) == name), None)

    def has_control_flow(self) -> bool:
        """Whether calls are in branches or loops, of which estimates count each branch and one iteration."""
        return any(call.function and self.region_of(call) is None for call in self.calls)

    def source_nodes(self) -> SourceNodes:
        """Return the operators and costs of the source nodes."""
        macs = {node.source: round(node.mac_share * self.macs) for node in self.nodes}
        return SourceNodes({node.source: node.op for node in self.nodes}, macs)


def build_report(
    model: str,
    target: str,
    nodes: dict[str, str],
    macs: dict[str, int],
    kernels: Iterable[KernelCall],
    core: Core,
    left_float: Iterable[Diagnostic] = (),
    kept_layout: Iterable[Diagnostic] = (),
    npu: NpuReport | None = None,
    calibration: Calibration | None = None,
    warnings: Iterable[str] = (),
    sites: Iterable[CallSite] = (),
    package: PackageFacts | None = None,
    removed_channels: Iterable[RemovedChannels] = (),
    kept_channels: Iterable[Diagnostic] = (),
    unpacked: Iterable[Diagnostic] = (),
) -> CompileReport:
    """Join the records of the phases into one row per source node.

    Args:
        model: Model name.
        target: Profile name.
        nodes: Source node → operator, in the source's order.
        macs: Source node → number of multiply-accumulates of one inference.
        kernels: The kernels, with their source nodes.
        core: Core that costs are estimated for.
        left_float: Calls of a quantised model that compute in float.
        kept_layout: Calls that are not channels-last.
        npu: The division between NPU and CPU, if there is one.
        calibration: The calibration, if the model was quantised here.
        warnings: Warnings for the user.
        sites: The calls of the kernels, in execution order.
        package: Sizes and memory.
        removed_channels: Channels that are not computed, by node.
        kept_channels: Constant channels that are computed nevertheless, with the reason.
        unpacked: Calls whose integer weights became float.
    """
    calls = tuple(kernels)
    by_source: dict[str, list[KernelCall]] = {}
    for call in calls:
        for source in call.sources:
            by_source.setdefault(source, []).append(call)
    total = sum(macs.values())
    rows = tuple(
        _row(name, op, by_source.get(name, []), macs.get(name, 0) / total if total else 0.0, npu)
        for name, op in nodes.items()
    )
    executed = call_rows(sites, {call.symbol: call for call in calls}, SourceNodes(nodes, macs), core)
    report = CompileReport(
        model=model,
        target=target,
        macs=total,
        nodes=rows,
        kernels=calls,
        calls=executed,
        package=package,
        left_float=tuple(left_float),
        unpacked=tuple(unpacked),
        kept_layout=tuple(kept_layout),
        removed_channels=tuple(removed_channels),
        kept_channels=tuple(kept_channels),
        npu=npu,
        calibration=calibration,
        warnings=tuple(warnings),
    )
    if npu is not None or report.has_control_flow():
        return report
    cycles = sum(call.cycles_with_caches for call in executed)
    return report.model_copy(update={"time": time_interval(target, core.name, cycles, by_formula=True)})


def _row(name: str, op: str, calls: list[KernelCall], share: float, npu: NpuReport | None) -> NodeRow:
    where: Where
    where, why = npu.where(name) if npu else ("cpu", "")
    if not calls:
        return NodeRow(
            source=name,
            op=op,
            where="npu" if where == "npu" else "folded",
            symbols=(),
            kernel="-",
            numerics="-",
            mac_share=share,
            reason=why if where == "npu" else "constant at compile time, or needs no computation",
        )
    # A node that several kernels compute (one prepares weights, another uses them) is described by its first
    # hand-written kernel, else by the first of a kernel family, else by the first.
    main = min(
        calls, key=lambda call: (call.kernel == CHECK, call.kernel == GENERIC, call.kernel in families.NAMES)
    )
    indices = dict.fromkeys(call.indices[name] for call in calls if name in call.indices)
    rejected = "; ".join(f"not {a.asked}: {a.why()}" for a in main.rejected)
    return NodeRow(
        source=name,
        op=op,
        where=where,
        symbols=tuple(call.symbol for call in calls),
        kernel=main.kernel,
        numerics=main.numerics,
        mac_share=share,
        reason="; ".join(filter(None, [why, main.reason, *indices, rejected])),
    )
