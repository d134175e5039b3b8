# SPDX-License-Identifier: Apache-2.0
"""`AccuracyReport`: where a quantised model loses accuracy, by the source model's nodes."""

from typing import Literal

from pydantic import Field

from arm_ext.common.json_record import ClosedRecord

GREATEST_DB = 200.0
"""SQNR of values without any error."""

GOOD_DB = 40.0
"""A layer that keeps so much, alone and in what reads it, is not to blame, whatever the cause."""

LOW_DB = 20.0
"""A layer whose own error is above a tenth of its values (by amplitude) is to blame, whatever the cause."""


SATURATED = 0.01
"""Share of a layer's values beyond its integers that is a cause: ranges of samples leave out a little on purpose, of
percentile 0.001 %, of entropy more."""


class Errors(ClosedRecord):
    """Distance of values from a reference, over all samples."""

    sqnr_db: float = Field(
        description="Signal-to-quantisation-noise ratio, 10 log10(sum of reference^2 / sum of difference^2), within "
        "-100 and 200."
    )
    cosine: float = Field(description="Cosine of the angle between both.")
    max_error: float = Field(description="The greatest absolute difference.")
    mean_error: float = Field(description="The mean of the absolute differences.")
    mean_shift: float = Field(description="The mean of the differences with their signs.")


class _Bins(ClosedRecord):
    start: float = Field(description="Least value that the first bin holds.")
    width: float = Field(description="Width of each bin, a power of two: bin i begins at start + i * width.")


class ValueHistogram(_Bins):
    """Finite values of the source and of our integers on the same samples, over the same bins, 32 at most."""

    source: tuple[int, ...] = Field(description="Number of the source's values in each bin.")
    integers: tuple[int, ...] = Field(description="Number of values that our integers stand for in each bin.")


class ErrorHistogram(_Bins):
    """Differences from the source, with their signs, on the same samples, over the same bins, 32 at most."""

    own: tuple[int, ...] = Field(description="Number of differences of the layer's own error in each bin.")
    integers: tuple[int, ...] = Field(description="Number of differences of our integers in each bin.")


class LayerAccuracy(ClosedRecord):
    """A tensor of the quantised model, compared with the source's tensor that it approximates."""

    name: str = Field(description="The source node that it is named after, or the model's input.")
    operator: str = Field(description='Operator of that node; "input" for an input.')
    reader: str = Field(
        description="The node that reads it, if the value is quantised several times for different readers; else "
        "empty."
    )
    nodes: tuple[str, ...] = Field(description="Source nodes that compute it from earlier layers.")
    tensor: str = Field(description="Tensor of the source model that it stands for.")
    type: str = Field(description="Element type in the quantised model.")
    scale: float | None = Field(description="Scale of its integers; null for a float layer.")
    zero_point: int | None = Field(description="Zero point of its integers; null for a float layer.")
    elements: int = Field(description="Number of elements in all samples.")
    own: Errors = Field(
        description="The layer's own error: it alone is quantised and fed with the source's values, and its result "
        "is compared with the source's."
    )
    read_db: float | None = Field(
        default=None,
        description="The least SQNR that a convolution or product which reads the layer has of the layer's own error, "
        "from the errors of its channels and the weights that multiply them; null if none reads it.",
    )
    fake: Errors = Field(
        description="Error of the quantised model in float (QDQ): the layer's own error and what earlier layers "
        "pass on."
    )
    integers: Errors = Field(description="Error of our integers against the source: all links of the chain.")
    rounding: Errors = Field(
        description="Difference of our integers from the quantised model in float: the last link alone."
    )
    differing: int | None = Field(
        description="Number of our integers that differ from onnxruntime's, told to compute in integers, or from "
        "LiteRT's, or from torch's, which computes in float; null if it cannot, and for a float layer."
    )
    saturated: float = Field(
        description="Share of the source's values more than a step beyond what the integers can hold."
    )
    zeros: float = Field(description="Share of our values that are zero.")
    source_zeros: float = Field(description="Share of the source's values that are zero.")
    values: ValueHistogram | None = Field(
        default=None, description="Histogram of the values; null in reports of earlier versions."
    )
    differences: ErrorHistogram | None = Field(
        default=None, description="Histogram of the errors; null in reports of earlier versions."
    )
    causes: tuple[str, ...] = Field(description="Explanations of its own error, in words.")

    @property
    def title(self) -> str:
        """Name of the layer; if the record is for only one of its readers, with that reader."""
        return f"{self.name} as {self.reader} reads it" if self.reader else self.name

    @property
    def kept_db(self) -> float:
        """SQNR of the layer's own error: the minimum of that at the layer and those at its readers."""
        return self.own.sqnr_db if self.read_db is None else min(self.own.sqnr_db, self.read_db)

    @property
    def is_to_blame(self) -> bool:
        """Whether a cause of the layer's error is known, or the layer's own error is large."""
        return self.own.sqnr_db < LOW_DB or (bool(self.causes) and self.kept_db < GOOD_DB)

    def because(self) -> str:
        """Return the causes as text, or a sentence if none is known."""
        return (
            "; ".join(self.causes)
            or f"its own error is large ({self.own.sqnr_db:.1f} dB), of no single cause"
        )


class OutputAccuracy(ClosedRecord):
    """An output of the model, compared with the source's output."""

    name: str = Field(description="Name of the output.")
    fake: Errors = Field(description="Errors of the quantised model in float.")
    integers: Errors = Field(description="Errors of our integers.")


class MetricValue(ClosedRecord):
    """A metric of each link of the chain, on the same samples."""

    name: str = Field(description='Name of the metric, such as "top1", or module:function.')
    source: float = Field(description="Value for the float model.")
    fake: float = Field(description="Value for the quantised model in float (QDQ).")
    integers: float = Field(description="Value for our integers.")

    drop: float = Field(
        description="How much worse our integers are than the source: the difference; for perplexity, the relative "
        "difference."
    )
    less_is_better: bool = Field(description="Whether a lower value is better.")


class LayerCost(ClosedRecord):
    """Cost of a layer, and the effect of its quantisation on the outputs."""

    name: str = Field(description="Name of the layer.")
    noise: float | None = Field(
        description="Power of the error at the outputs if this layer alone is quantised, over that of the source's "
        "values, summed over outputs; null if it was not measured."
    )
    cycles: int = Field(description="Estimated cycles in int8 on one core, with all layers in int8.")
    int16_cycles: int | None = Field(
        default=None,
        description="Estimated cycles with 16-bit activations on one core, with all layers so that can be; null if "
        "int16 was no choice.",
    )
    float16_cycles: int | None = Field(
        default=None,
        description="Estimated cycles in binary16 on one core, with all layers so that can be; null if it was no "
        "choice.",
    )
    float_cycles: int = Field(description="Estimated cycles in float on one core, with all layers in float.")
    npu: tuple[str, ...] = Field(
        default=(), description="Precisions in which the NPU computes the layer, of int8 and int16."
    )


class NpuTarget(ClosedRecord):
    """The NPU that cycles are estimated for, and the clocks and hand-over by which regions were chosen."""

    accelerator: str = Field(description="Name of the accelerator, such as ethos-u55-128.")
    cpu_mhz: float = Field(description="Clock of the CPU in MHz.")
    npu_mhz: float = Field(description="Clock of the NPU in MHz.")
    handover_us: float = Field(description="Microseconds of one hand-over between CPU and NPU.")


class NpuCost(ClosedRecord):
    """The cost of a model on the NPU, and of its parts on the CPU."""

    regions: int = Field(description="Number of regions, each handed over once an inference.")
    mac_share: float = Field(description="Share of the multiply-accumulates that the NPU computes.")
    cycles: int = Field(description="Vela's estimate of all regions, in cycles of the NPU.")
    cpu_cycles: int = Field(
        description="Estimated cycles of what the CPU computes, without hand-overs and copies."
    )


class PrecisionChoice(ClosedRecord):
    """A model with some layers in int16 or float: its accuracy and its estimated cycles."""

    layers: tuple[str, ...] = Field(description="Names of the layers in float32, in execution order.")
    int16: tuple[str, ...] = Field(
        default=(), description="Names of the layers with 16-bit activations, in execution order."
    )
    float16: tuple[str, ...] = Field(
        default=(), description="Names of the layers in binary16, in execution order."
    )
    metric: float = Field(description="Metric of the quantised model in float (QDQ).")
    holds: bool = Field(description="Whether the bound holds.")
    cycles: int = Field(
        description="Estimated cycles of one inference on one core; with an NPU, of CPU, NPU, hand-overs and copies in "
        "turn, in cycles of the CPU's clock."
    )
    npu: NpuCost | None = Field(
        default=None, description="The parts of the cost with an NPU; null without one."
    )
    bytes: int = Field(description="Bytes of all constants.")
    chosen: bool = Field(description="Whether this choice was taken.")


class MixedPrecision(ClosedRecord):
    """The choice of layers in int16 and in float so that a bound holds."""

    target: str = Field(description="Profile that cycles are estimated for.")
    metric: str = Field(description="Name of what was measured.")
    source: float = Field(description="The metric of the float model.")
    bound: str = Field(description="The bound that must hold.")
    npu: NpuTarget | None = Field(
        default=None, description="The NPU that computes what it takes and gains; null without one."
    )
    choices: tuple[PrecisionChoice, ...] = Field(
        description="Choices that no other one beats in cycles and metric, and the chosen one; the fastest first."
    )
    nodes: tuple[str, ...] = Field(
        description="Source nodes of the layers that were chosen for float, for --keep-float."
    )
    int16_nodes: tuple[str, ...] = Field(
        default=(), description="Source nodes of the layers that were chosen for int16, for --int16."
    )
    float16_nodes: tuple[str, ...] = Field(
        default=(), description="Source nodes of the layers that were chosen for binary16, for --float16."
    )
    modules: tuple[str, ...] | None = Field(
        default=None,
        description="Modules of a PyTorch program that compute the layers that were chosen for float, which its "
        "quantiser is to leave out; null for other models.",
    )
    layers: tuple[LayerCost, ...] = Field(
        description="Layers that could be in int16 or float, in execution order."
    )
    without_int16: str | None = Field(
        default=None, description="Why int16 was no choice; null if it was one."
    )
    without_float16: str | None = Field(
        default=None, description="Why float16 was no choice; null if it was one."
    )
    complete: bool = Field(description="Whether the search came to its end; false if it was interrupted.")
    in_integers: bool | None = Field(
        default=None,
        description="Whether our integers of the chosen model hold the bound, too; null if they were not compared.",
    )


Wrong = Literal["NPU", "CPU"]

Middle = Literal["QDQ", "LiteRT"]


class NpuDifference(ClosedRecord):
    """The first operator of a region whose results differ on the NPU."""

    nodes: tuple[str, ...] = Field(description="Source nodes that it comes from.")
    operator: str = Field(description="Kind of the operator.")
    wrong: Wrong = Field(
        description="Which one differs from TOSA's reference model: the NPU's commands, or the CPU's kernels."
    )


class NpuRegionLink(ClosedRecord):
    """Whether the NPU computes the same integers as the CPU in a region that gets the same inputs."""

    sources: tuple[str, ...] = Field(description="Source nodes in it, in execution order.")
    elements: int = Field(description="Number of elements of its outputs, over all samples.")
    differing: int = Field(description="Number of these that differ from our integers.")
    largest: int = Field(description="The greatest difference.")
    begins: NpuDifference | None = Field(
        description="The first operator that differs; null if none does, or only the region as a whole."
    )


class NpuLink(ClosedRecord):
    """The last link of the chain, computed by a functional model of the NPU."""

    accelerator: str = Field(description="Name of the accelerator, such as ethos-u55-128.")
    samples: int = Field(description="Number of samples that were compared, from the first on.")
    regions: tuple[NpuRegionLink, ...] = Field(
        description="Regions in execution order; empty if all runs on the CPU."
    )

    @property
    def equal(self) -> bool:
        """Whether no value differs."""
        return not any(region.differing for region in self.regions)


class Remedy(ClosedRecord):
    """What it gives and costs to leave the worst layers of a quantised model in float."""

    nodes: tuple[str, ...] = Field(
        description="Source nodes to leave in float, as --keep-float takes them, those that are already among them."
    )
    layers: int = Field(description="Number of layers that would be in float besides.")
    before_db: float = Field(
        description="SQNR of the worst output as the model is, in dB, in float between QDQ."
    )
    after_db: float = Field(description="The same with these nodes in float.")
    metric: str | None = Field(default=None, description="Name of the metric; null if there is none.")
    before: float | None = Field(default=None, description="Metric as the model is.")
    after: float | None = Field(default=None, description="Metric with these nodes in float.")
    target: str = Field(description="Target that cycles are estimated for.")
    cycles: float = Field(
        description="Estimated cycles with these nodes in float, over those of the model as it is."
    )


class AccuracyReport(ClosedRecord):
    """The chain from a float model to our integers, on the same samples."""

    schema_version: Literal[1] = Field(default=1, description="Version of this schema.")
    model: str = Field(description="Name of the quantised model.")
    reference: str = Field(description="Name of the float model.")
    board: str = Field(description="Board that computed our integers.")
    samples: int = Field(description="Number of samples that were compared.")
    given: int = Field(
        description="Number of samples in the data; larger than `samples` if the run was interrupted."
    )
    layers: tuple[LayerAccuracy, ...] = Field(description="Layers in execution order.")
    outputs: tuple[OutputAccuracy, ...] = Field(description="Outputs in the model's order.")
    metric: MetricValue | None = Field(
        description="Value of the metric; null if none was asked for, or if it could not be measured."
    )
    unmeasured: str | None = Field(
        default=None,
        description="Why the metric could not be measured, such as that a function of the user's raised an error for "
        "our outputs; null if it was measured, or if none was asked for.",
    )
    uncovered: tuple[str, ...] = Field(
        description="Source nodes that no tensor of the quantised model stands for."
    )
    mixed: MixedPrecision | None = Field(
        default=None, description="Choice of layers in int16 and in float; null if it was not asked for."
    )
    remedy: Remedy | None = Field(
        default=None,
        description="What leaving the worst layers in float gives and costs; null if outputs are good, or if it gives "
        "nothing.",
    )
    pruned: tuple[str, ...] = Field(
        default=(),
        description="Source nodes whose weights were pruned 2:4 before; their errors include the pruning.",
    )
    npu: NpuLink | None = Field(
        default=None, description="Comparison of the NPU with our integers; null if it was not asked for."
    )
    middle: Middle = Field(
        default="QDQ",
        description="The link between the source and our integers, `fake`: QDQ in float, or LiteRT in its own "
        "integers.",
    )
    runtime: str = Field(description="Runtime that computed the source and the quantised model in float.")

    @property
    def has_readers(self) -> bool:
        """Whether the errors of layers are known at the products that read them."""
        return any(layer.read_db is not None for layer in self.layers)

    def worst(self) -> list[LayerAccuracy]:
        """Return the layers sorted: those to blame first, then the largest own error first."""
        return sorted(self.layers, key=lambda layer: (not layer.is_to_blame, layer.kept_db))

    def to_blame(self) -> list[LayerAccuracy]:
        """Return the layers to blame, largest own error first."""
        return [layer for layer in self.worst() if layer.is_to_blame]


def not_compared(model: str, reference: str, given: int) -> AccuracyReport:
    """Return the report of a comparison that was interrupted before its first sample."""
    return AccuracyReport(
        model=model,
        reference=reference,
        board="host",
        samples=0,
        given=given,
        layers=(),
        outputs=(),
        metric=None,
        uncovered=(),
        runtime="",
    )
