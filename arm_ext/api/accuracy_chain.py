# SPDX-License-Identifier: Apache-2.0
"""The chain of `accuracy`, from the float model to our integers: its error sums over samples, and its report."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax

from arm_ext.api.mixed_precision import Choices
from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.pipeline.selftest import Run
from arm_ext.quantization.error_sums import error_of
from arm_ext.quantization.layer_errors import LayerErrors, errors
from arm_ext.quantization.metrics import Metric, Outputs, stacked
from arm_ext.quantization.mixed_precision import Judge
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.record import (
    AccuracyReport,
    LayerAccuracy,
    MetricValue,
    Middle,
    MixedPrecision,
    OutputAccuracy,
)
from schedules.numerics.qdq import Qdq

Array = npt.NDArray[Any]
Feed = dict[str, Array]

LINKS = ("source", "fake", "integers")
"""Links of a chain, as `MetricValue` names them."""
_WORDS = {
    "source": "the float model",
    "fake": "the quantised model in its own runtime",
    "integers": "our integers",
}


@dataclass
class States:
    """The states of a model that is run in each link of the chain (float, QDQ, our integers).

    Attributes:
        pairs: Name of an input → the output that is its next value.
        initial: Name of an input → its value in the first step.
        exact: The source's states of each step so far.
    """

    pairs: Mapping[str, str]
    initial: Mapping[str, Array]
    exact: list[Feed] = field(default_factory=list)
    _now: dict[str, Feed] = field(default_factory=dict)

    def without(self, names: Collection[str]) -> "States":
        """Return these states without those that are among the named inputs."""
        kept = [name for name in self.pairs if name not in names]
        return States({name: self.pairs[name] for name in kept}, {name: self.initial[name] for name in kept})

    def at(self, link: str) -> Feed:
        """Return the states with which the next step of a link starts."""
        return self._now.get(link, dict(self.initial))

    def follow(self, **links: Mapping[str, Array]) -> None:
        """Store each link's states from its outputs of the last step."""
        self.exact.append(self.at("source"))
        for link, values in links.items():
            self._now[link] = {name: values[output] for name, output in self.pairs.items()}


@dataclass(kw_only=True)
class Chain(ABC):
    """A chain from a float model to our integers, with the error sums of the compared samples.

    Attributes:
        name: Name of the quantised model.
        reference: Name of the float model.
        outputs: Names of the outputs, which both models have.
        runtime: Runtime that computes the other links.
        middle: The link between both.
        uncovered: Nodes of the source that are of no layer.
        layers: Sums of each layer.
        results: Link → for each sample the outputs.
    """

    name: str
    reference: str
    outputs: tuple[str, ...] = ()
    runtime: str = ""
    middle: Middle = "QDQ"
    uncovered: tuple[str, ...] = ()
    layers: list[LayerErrors] = field(default_factory=list)
    results: dict[str, list[list[Array]]] = field(default_factory=lambda: {link: [] for link in LINKS})

    @abstractmethod
    def imported(self) -> ImportedModel:
        """Return the imported model that is divided into regions for the NPU."""

    @abstractmethod
    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the specs of the arrays in the samples."""

    @abstractmethod
    def feeds(self, arrays: Mapping[str, Array]) -> list[Feed]:
        """Return one feed per sample.

        Raises:
            UsageError: The arrays do not fit the model's inputs.
        """

    @abstractmethod
    def inputs(self, feed: Feed) -> list[Array]:
        """Return the quantised model's inputs for a sample, in its order, with states as our integers computed them."""

    @abstractmethod
    def exact(self, feeds: Sequence[Feed]) -> Iterator[Mapping[str, Array]]:
        """Yield the reference's outputs for each sample: name → value."""

    def check_metric(self, metric: Metric, feeds: Sequence[Feed]) -> None:
        """Check that the metric can be computed from the reference's outputs; the comparison takes much longer.

        Raises:
            UsageError: A metric function raises an error or returns no number, or the outputs do not fit the metric.
        """
        rows = [[values[name] for name in self.outputs] for values in self.exact(feeds)]
        outputs = stacked(self.outputs, rows)
        metric(outputs, outputs)

    @abstractmethod
    def prepare(self, feed: Feed, numerics: Qdq) -> ImportedModel:
        """Prepare the comparison; return the quantised model with all layers' values as outputs, to be compiled.

        Args:
            feed: The first sample.
            numerics: The numerics of our integers.

        Raises:
            UsageError: The two models have no layer in common.
        """

    @abstractmethod
    def add(self, feed: Feed, run: Run) -> None:
        """Compare one sample; `run` runs the compiled form of the model that `prepare` returned."""

    def keep(self, **links: Mapping[str, Array]) -> None:
        """Keep the outputs of one sample for metrics: link → output name → value."""
        for link, values in links.items():
            self.results[link].append([values[name] for name in self.outputs])

    @property
    def samples(self) -> int:
        """Number of samples that were compared."""
        return len(self.results["integers"])

    def label(self, node: str) -> str:
        """Return the name by which users know a node of either model."""
        return node

    def labelled(self, layer: LayerAccuracy) -> LayerAccuracy:
        """Return a layer's record with the names by which users know its nodes."""
        named = {field: getattr(layer, field) for field in ("name", "reader", "tensor")}
        labels = {field: self.label(name) if name else "" for field, name in named.items()}
        return layer.model_copy(update={**labels, "nodes": tuple(map(self.label, layer.nodes))})

    def report(self, board: str, given: int, metric: Metric | None) -> AccuracyReport:
        """Return the report of the compared samples."""
        rows: dict[str, Sequence[Sequence[Array]]] = {
            link: found[: self.samples] for link, found in self.results.items()
        }
        links = {link: stacked(self.outputs, found) for link, found in rows.items()}
        value, unmeasured = None, None
        if metric is not None:
            try:
                value = _measured(metric, links)
            except UsageError as err:  # all else is told
                unmeasured = str(err)
        return AccuracyReport(
            model=self.name,
            reference=self.reference,
            board=board,
            samples=self.samples,
            given=given,
            layers=tuple(self.labelled(layer.record()) for layer in self.layers),
            outputs=tuple(
                OutputAccuracy(
                    name=output,
                    fake=errors(error_of(links["fake"][output], links["source"][output])),
                    integers=errors(error_of(links["integers"][output], links["source"][output])),
                )
                for output in self.outputs
            ),
            metric=value,
            unmeasured=unmeasured,
            uncovered=tuple(map(self.label, self.uncovered)),
            middle=self.middle,
            runtime=self.runtime,
        )


def _measured(metric: Metric, links: Mapping[str, Outputs]) -> MetricValue:
    """Return a metric computed from each link's outputs.

    Raises:
        UsageError: The metric fails on the outputs of one link, which the message names.
    """
    found = {}
    for link, outputs in links.items():
        try:
            found[link] = metric(outputs, links["source"])
        except UsageError as err:
            raise UsageError(f"{err}, when computed from the outputs of {_WORDS[link]}") from err
    drop = metric.drop(found["integers"], found["source"])
    return MetricValue(name=metric.name, drop=drop, less_is_better=metric.less_is_better, **found)


class SearchedChain(Chain):
    """A chain whose quantised model can be built with some layers in int16 or float, for `--bisect`."""

    @abstractmethod
    def check_searched(self) -> None:
        """Check that the chain's models allow putting layers back to float.

        Raises:
            UsageError: Layers cannot be put back to float.
        """

    @abstractmethod
    def choices(self) -> Choices:
        """Return the precisions that each layer can have, and the builder of models with such layers."""

    @abstractmethod
    def judge(self, feeds: Sequence[Feed], metric: Metric, gate: Gate) -> Judge:
        """Return the judge of models that `choices` builds: it measures them on the samples."""

    def chosen(self, mixed: MixedPrecision) -> MixedPrecision:
        """Return the choice, extended by information that users of this format need to apply it."""
        return mixed


def with_results(model: ImportedModel, mod: tvm.IRModule) -> ImportedModel:
    """Return a model with another `main`, whose results become the outputs; it has no states any more."""
    ty = mod["main"].ret_ty
    fields = ty.fields if isinstance(ty, relax.TupleType) else [ty]
    specs = tuple(
        TensorSpec(f"result {number}", tuple(int(size) for size in field.shape), str(field.dtype))
        for number, field in enumerate(fields)
    )
    return replace(model, mod=mod, outputs=specs, states=(), for_npu=None, reference=_nothing)


def _nothing(inputs: list[Array]) -> tuple[list[Array], str]:
    return [], "the source's runtime does not compute these results"
