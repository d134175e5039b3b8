# SPDX-License-Identifier: Apache-2.0
"""`AdviceReport`: a model's present cost, the cost of each alternative, and changes that only the author can make."""

from typing import Any, Literal

from pydantic import Field

from arm_ext.common.json_record import ClosedRecord
from arm_ext.measure.call_costs import Bound
from arm_ext.report.advice.failure import Failure
from arm_ext.report.profile.record import KernelOption

Status = Literal["measured", "failed", "not built"]

SPENT = "the budget was used up"
"""Note on an alternative that was not built for want of time."""


class CostlyCall(ClosedRecord):
    """One of the costliest kernel calls of the model as it is compiled without further options."""

    anchor: str = Field(description="Source node that names the call.")
    kernel: str = Field(description="Kernel or family of loops.")
    cost: float = Field(description="Cost of all calls that this node names, in the report's unit.")
    share: float = Field(description="Share of the whole inference.")
    bound: Bound | None = Field(default=None, description="The resource that limits it, on a virtual board.")
    alternatives: tuple[KernelOption, ...] = Field(
        default=(), description="Kernels that could compute it instead, by estimate."
    )


class Alternative(ClosedRecord):
    """A build of the same model with other options of `compile`."""

    name: str = Field(description='Name of the alternative, such as "fp16".')
    options: dict[str, Any] = Field(description="Command-line options that turn it on, and their values.")
    why: str = Field(description="Why it could help.")
    predicted: float | None = Field(
        default=None,
        description="Share of the whole cost that it saves, by the estimates of the kernels that it would have, before "
        "it is built; negative if it costs more. Null for a model with branches or loops, whose estimates count one "
        "iteration.",
    )
    status: Status = "not built"
    failure: Failure = Field(default="", description="Cause of the failure, if it could not be measured.")
    note: str = Field(default="", description="Why it was not measured, or is not recommended.")
    cost: float | None = Field(default=None, description="Cost of one inference, in the report's unit.")
    gain: float | None = Field(
        default=None, description="Share of the whole cost that it saves; negative if it costs more."
    )
    error: float | None = Field(
        default=None,
        description="Largest difference at an output on the self-test, over max |output| of the present package.",
    )
    calls: tuple[float | None, ...] = Field(
        default=(),
        description="Cost of each of the costliest calls, in their order; null if no call has that name.",
    )
    recommended: bool = False


class Advice(ClosedRecord):
    """A change of the model that its author could make."""

    rule: str = Field(description="Name of the rule that found it.")
    sources: tuple[str, ...] = Field(description="Source nodes.")
    evidence: str = Field(description="Figures of the profile about these nodes.")
    at_most: float = Field(
        description="Share of the whole cost that these calls have. What is saved can be more where a change gives "
        "their neighbours better kernels, too."
    )
    gain: float | None = Field(
        default=None,
        description="Share of the whole cost that the changed model saves, built and measured; null if it was not.",
    )
    estimated: float | None = Field(
        default=None,
        description="Share of the whole cost that the change would save by estimate, where no changed model could be "
        "built; null if it was measured.",
    )
    basis: str = Field(default="", description="What the estimate is; empty if it was measured.")
    error: float | None = Field(
        default=None,
        description="Error at the outputs, as for alternatives, of the model changed without training; null where the "
        "changed model computes something else.",
    )
    how: str = Field(description="The change to make.")


class LayerAlternative(ClosedRecord):
    """An alternative for a part of the model: a layer in int8, or a region on an NPU; the rest stays as it is."""

    name: str = Field(description='Name of the alternative, such as "int8" or "ethos-u55-128".')
    anchor: str = Field(description="Source node that names the layer.")
    sources: tuple[str, ...] = Field(description="Source nodes that are computed otherwise.")
    how: str = Field(description="The command or option that turns it on.")
    status: Status = "not built"
    failure: Failure = Field(default="", description="Cause of the failure, if it could not be measured.")
    note: str = Field(default="", description="Why it was not measured, or is not recommended.")
    now: float = Field(description="Cost of these nodes on the CPU as they are, in the report's unit.")
    cost: float | None = Field(
        default=None,
        description="Their cost then. On an NPU: Vela's estimate with the hand-over, in cycles of the CPU's clock.",
    )
    gain: float | None = Field(
        default=None, description="Share of the whole cost that it saves; negative if it costs more."
    )
    layer_error: float | None = Field(
        default=None,
        description="Largest difference at the layer's result on the samples' first, over its max |value|; null on an "
        "NPU, which computes what the CPU's integer kernels compute.",
    )
    error: float | None = Field(default=None, description="Error at the outputs, as for alternatives.")

    @property
    def helps(self) -> bool:
        """Whether the alternative is recommended."""
        return self.status == "measured" and not self.note


class Declined(ClosedRecord):
    """A change that a rule proposed and that is not advised: it gains nothing, or could not be measured."""

    rule: str
    sources: tuple[str, ...]
    reason: str = Field(
        description="Why it is not advised, such as that the changed model was measured and is slower."
    )
    failure: Failure = Field(default="", description="Cause of the failure, if it could not be measured.")


class AdviceReport(ClosedRecord):
    """Recommendations for a faster inference on one target."""

    schema_version: Literal[1] = 1
    model: str = Field(description="Name of the model.")
    target: str = Field(description="Profile that it is compiled for.")
    board: str = Field(description="Board as the user named it.")
    core: str = Field(description="Core of the board, or the one that cycles are estimated for.")
    unit: Literal["cycles", "us"] = Field(description="Unit of every cost.")
    cost: float = Field(
        description="Cost of one inference of the model as it is compiled without further options."
    )
    given: dict[str, Any] = Field(
        description="Options of `compile` that the caller gave, such as the target; all builds have them."
    )
    max_error: float = Field(description="Largest error at the outputs that recommended options may have.")
    calls: tuple[CostlyCall, ...]
    alternatives: tuple[Alternative, ...]
    layers: tuple[LayerAlternative, ...] = Field(
        default=(), description="Alternatives for single layers; `recommended` holds none of them."
    )
    recommended: dict[str, Any] = Field(
        description="Options of `compile` that are recommended, measured together; empty if none is."
    )
    gain: float = Field(description="Share of the cost that the recommended options save together.")
    error: float = Field(description="Error at the outputs with the recommended options together.")
    advice: tuple[Advice, ...]
    declined: tuple[Declined, ...] = ()
    note: str = Field(description="What the figures mean, and what they do not mean.")

    def failures(self) -> set[Failure]:
        """Return the causes for which alternatives or layers were not measured."""
        found = {each.failure for each in self.alternatives} | {each.failure for each in self.declined}
        found |= {each.failure for each in self.layers}
        return found - {""}
