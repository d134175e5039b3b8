# SPDX-License-Identifier: Apache-2.0
"""CompileReport: where and by which kernel each source node runs, and why not elsewhere."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from arm_ext.common.text import columns
from arm_ext.package.manifest import Calibration, json_schema
from arm_ext.report.npu import NpuReport, Where
from relay_passes import KeptLayout, RemainingFloat
from schedules.generic import families
from schedules.generic.families import GENERIC

CHECK = "check"
"""The kernel of what compares indices before another kernel reads by them."""

_SELECTION_COST = (
    "Selection cost is what they are chosen by: cycles of one call on one core, by a formula over a kernel's "
    "instructions.\nIt compares kernels of one workload; `arm-ext bench` models cycles of what is executed."
)

SCHEMA_VERSION: Literal[2] = 2


_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_NAMED = 3
"""Source nodes that the table of kernels names of each."""


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

    def next_best(self) -> str:
        """Return the runner-up: its name, or the parameters that it has other ones of, and its cost."""
        if self.runner_up is None:
            return "-"
        own, other = self.params, self.runner_up.params
        changed = ", ".join(f"{name} {value}" for name, value in other.items() if own.get(name) != value)
        what = changed if self.runner_up.kernel == self.kernel else self.runner_up.kernel
        return f"{what}: {self.runner_up.selection_cost:,}"


class FloatCall(BaseModel):
    """An operator of a quantised model that computes in float, and why; `limit` is what integers allow."""

    model_config = ConfigDict(frozen=True)

    sources: tuple[str, ...]
    operator: str
    reason: str
    limit: str = ""
    actual: str = ""

    @classmethod
    def of(cls, left: RemainingFloat) -> "FloatCall":
        """Return the record of what the pass noted."""
        compared = {} if left.limit is None else {"limit": str(left.limit), "actual": str(left.actual)}
        return cls(sources=left.nodes, operator=left.operator, reason=left.reason, **compared)

    def why(self) -> str:
        """Return the reason with its limit and the actual value."""
        return self.reason + (f": {self.actual} (limit {self.limit})" if self.limit else "")


class LayoutCall(BaseModel):
    """An operator that keeps the model's layout where others have channels last, and why."""

    model_config = ConfigDict(frozen=True)

    sources: tuple[str, ...]
    operator: str
    reason: str

    @classmethod
    def of(cls, kept: KeptLayout) -> "LayoutCall":
        """Return the record of what the pass noted."""
        return cls(sources=kept.nodes, operator=kept.operator.removeprefix("relax."), reason=kept.reason)


class NodeRow(BaseModel):
    """One source node. What the NPU computes has its CPU kernels too; "cpu+npu" is in part on each."""

    model_config = ConfigDict(frozen=True)

    source: str
    op: str
    where: Where | Literal["folded"]
    symbols: tuple[str, ...]
    kernel: str
    numerics: str
    mac_share: float
    reason: str


class CompileReport(BaseModel):
    """report.json."""

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[2] = SCHEMA_VERSION
    model: str
    target: str
    macs: int
    nodes: tuple[NodeRow, ...]
    kernels: tuple[KernelCall, ...]
    left_float: tuple[FloatCall, ...] = ()
    kept_layout: tuple[LayoutCall, ...] = ()
    npu: NpuReport | None = None
    calibration: Calibration | None = None
    warnings: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return how many source nodes each kernel serves: "linear_f32 13, generic 40, folded 12 nodes"."""
        count = Counter(node.kernel if node.where == "cpu" else node.where for node in self.nodes)
        return ", ".join(f"{kernel} {n}" for kernel, n in count.most_common()) + " nodes"

    def _named(self, sources: Sequence[str]) -> str:
        """The first of some source nodes, conversions only where there is nothing else."""
        operators = {node.source: node.op for node in self.nodes}
        named = [name for name in sources if operators.get(name) not in _CONVERSIONS] or list(sources)
        more = len(named) - _NAMED
        return ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")

    def text(self) -> str:
        """Render one page: totals, a row a node, a row a kernel, what was left in float, what kept its layout."""
        lines = [
            f"{self.model} for {self.target}: {len(self.nodes)} nodes, {len(self.kernels)} kernels, "
            f"{self.macs / 1e6:.2f} MMAC",
            *(f"WARNING: {warning}" for warning in self.warnings),
            "",
        ]
        if self.calibration is not None:
            lines += [*_distances(self.calibration), ""]
        rows: list[tuple[str, ...]] = [("node", "operator", "where", "kernel", "numerics", "MAC %", "reason")]
        rows += [
            (n.source, n.op, n.where, n.kernel, n.numerics, f"{100 * n.mac_share:.1f}", n.reason)
            for n in self.nodes
        ]
        lines += columns(rows)
        if self.npu is not None:
            lines += ["", *self.npu.text()]
        lines += ["", f"Kernels. {_SELECTION_COST}"]
        choices = [
            (c.symbol, c.kernel, self._named(c.sources), _count(c.selection_cost), c.next_best())
            for c in self.kernels
        ]
        lines += columns([("symbol", "kernel", "nodes", "selection cost", "runner-up: its cost"), *choices])
        if tuned := [(c.symbol, c.kernel, c.tuned) for c in self.kernels if c.tuned]:
            lines += ["", f"{len(tuned)} kernels with tuned parameters:"]
            lines += columns([("symbol", "kernel", "by"), *tuned])
        head = ("node", "operator", "reason")
        if self.left_float:
            lines += ["", f"{len(self.left_float)} operators left in float:"]
            lines += columns([head, *((", ".join(c.sources), c.operator, c.why()) for c in self.left_float)])
        if self.kept_layout:
            lines += ["", f"{len(self.kept_layout)} operators left in the model's layout, not channels-last:"]
            lines += columns(
                [head, *((", ".join(c.sources), c.operator, c.reason) for c in self.kept_layout)]
            )
        return "\n".join(lines) + "\n"


def _count(cost: int | None) -> str:
    return "-" if cost is None else f"{cost:,}"


def _distances(calibration: Calibration) -> list[str]:
    """How far the outputs of a model that was quantised are from the float model's."""
    found = (
        (f"{calibration.compared} calibration samples", calibration.distance),
        ("self-test", calibration.selftest),
    )
    rows = [
        (each.output, where, f"{each.sqnr_db:.1f} dB", f"{each.relative:.2e}")
        for where, distances in found
        for each in distances
    ]
    head = ("output", "on", "SQNR", "max |difference| / max |reference|")
    title = f"Quantised by {calibration.method} of {calibration.samples} samples"
    if not rows:
        return [f"{title}, not compared with the float model"]
    return [f"{title}; distance to the float model:", *columns([head, *rows])]


def build_report(
    model: str,
    target: str,
    nodes: dict[str, str],
    macs: dict[str, int],
    kernels: Iterable[KernelCall],
    left_float: Iterable[FloatCall] = (),
    kept_layout: Iterable[LayoutCall] = (),
    npu: NpuReport | None = None,
    calibration: Calibration | None = None,
    warnings: Iterable[str] = (),
) -> CompileReport:
    """Join what the phases recorded into one row a source node.

    Args:
        model: Model name.
        target: Profile name.
        nodes: Source node → operator, in the source's order.
        macs: Source node → multiply-accumulates of one inference.
        kernels: The kernels, with their source nodes.
        left_float: What a quantised model computes in float.
        kept_layout: What is not channels-last.
        npu: What an NPU computes.
        calibration: How the model was quantised, if it was.
        warnings: What a user must hear.
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
    return CompileReport(
        model=model,
        target=target,
        macs=total,
        nodes=rows,
        kernels=calls,
        left_float=tuple(left_float),
        kept_layout=tuple(kept_layout),
        npu=npu,
        calibration=calibration,
        warnings=tuple(warnings),
    )


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
    # A node that spreads over several kernels (weights prepared in one, used in another) is described by the first
    # that a hand-written kernel serves, else by the first of a family, else by the first.
    main = min(
        calls, key=lambda call: (call.kernel == CHECK, call.kernel == GENERIC, call.kernel in families.NAMES)
    )
    indices = dict.fromkeys(call.indices[name] for call in calls if name in call.indices)
    rejected = "; ".join(f"not {a.kernel}: {a.reason}" for a in main.rejected)
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


def report_schema() -> dict[str, object]:
    """Return the JSON schema of report.json, which ships as schemas/report.schema.json."""
    return json_schema(CompileReport)
