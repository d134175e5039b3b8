# SPDX-License-Identifier: Apache-2.0
"""The report of `explain`: what each phase and each rule did to a model, and the history of one node."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from arm_ext.report.calls import CallRow, KernelCall
from arm_ext.report.npu import NpuReport
from schedules.diagnostic import Diagnostic

SCHEMA_VERSION: Literal[4] = 4


class Unapplied(BaseModel):
    """A place where a rule does not apply.

    Attributes:
        diagnostic: Why not. For a near miss, the diagnostic's limit is the value that the pattern asks for instead of
            the actual one.
        anchor: The operator that names the place: of `diagnostic.others` if there are any, else of `diagnostic.nodes`.
        gain: The most that the rule would save if it applied, as a share of the model's cycles.
    """

    model_config = ConfigDict(frozen=True)

    diagnostic: Diagnostic
    anchor: str = ""
    gain: float = 0.0


class RuleReport(BaseModel):
    """Applications and rejections of one rule in one model.

    Attributes:
        rule: Name of the rule, one of NAMES.
        effect: Effect of the rule, in a sentence.
        definition: The rule's algebra, before → after, and what it does to quantised models.
        not_tried: Why the rule was not tried at all; empty if it was.
        applied: Source nodes of each match that was rewritten.
        rejected: Matches that were rejected; nodes are those of the match.
        near_misses: Places where all but one or two subpatterns match; nodes are those of the operators that
            match.
        saved: Share of the model's cycles that would be added without this rule alone; None where it was not estimated.
    """

    model_config = ConfigDict(frozen=True)

    rule: str
    effect: str
    definition: str
    not_tried: str = ""
    applied: tuple[tuple[str, ...], ...] = ()
    rejected: tuple[Unapplied, ...] = ()
    near_misses: tuple[Unapplied, ...] = ()
    saved: float | None = None


class OperatorFate(BaseModel):
    """What became of the layers of one operator.

    Attributes:
        operator: The operator, as the model's format names it.
        layers: Number of layers.
        kernels: Kernels of the costliest call that each of these layers names, with the number of layers.
        merged: Number of layers that are computed in the call of another layer.
        gone: Number of layers that no call computes: constants, and what shares its input's bytes.
        share: Share of the model's cycles of the calls that these layers name.
    """

    model_config = ConfigDict(frozen=True)

    operator: str
    layers: int
    kernels: dict[str, int]
    merged: int
    gone: int
    share: float


class PhaseCount(BaseModel):
    """Number of operators after a phase; a composite counts as one."""

    model_config = ConfigDict(frozen=True)

    phase: str
    operators: int


class NodePhase(BaseModel):
    """The operators that a source node is part of after a phase, with the types of their results."""

    model_config = ConfigDict(frozen=True)

    phase: str
    operators: tuple[str, ...]


class NodeReport(BaseModel):
    """History of one source node in each phase, with the reasons."""

    model_config = ConfigDict(frozen=True)

    node: str
    operator: str = Field(description="Operator, as the model's format names it.")
    phases: tuple[NodePhase, ...] = Field(
        description="Operators that it is part of after each phase that changed them."
    )
    calls: tuple[CallRow, ...] = Field(description="The kernel calls that compute it.")
    kernels: tuple[KernelCall, ...] = Field(
        description="Kernels of these calls, with the kernels that declined and why."
    )
    npu: str = Field(
        default="",
        description="With an NPU, the region that the node runs in, or why it stays on the CPU; else empty.",
    )


class ExplainReport(BaseModel):
    """What became of a model's operators and of the rules, in the order in which they are tried.

    Attributes:
        model: Name of the model.
        fates: What became of the layers, by operator, those with the most cycles first.
        rules: One record per rule.
        phases: Number of operators, as imported and after each phase.
        kernel_calls: Number of kernel calls after the last phase.
        cycles_with_caches: Estimated cycles of these calls on one core.
        npu: With an NPU, how the model is divided; the kernel calls are then those of a machine without it.
        node: All about the source node that was asked for, if one was.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[4] = SCHEMA_VERSION
    model: str
    fates: tuple[OperatorFate, ...] = ()
    rules: tuple[RuleReport, ...]
    phases: tuple[PhaseCount, ...] = ()
    kernel_calls: int = 0
    cycles_with_caches: int = 0
    npu: NpuReport | None = None
    node: NodeReport | None = None
