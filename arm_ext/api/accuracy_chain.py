# SPDX-License-Identifier: Apache-2.0
"""Chains of `accuracy`: sums over samples, and the report of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.quantization.error_sums import error_of
from arm_ext.quantization.layer_errors import LayerErrors, errors
from arm_ext.quantization.metrics import Metric, stacked
from arm_ext.report.accuracy.record import AccuracyReport, MetricValue, Middle, OutputAccuracy

Array = npt.NDArray[Any]
Feed = dict[str, Array]

LINKS = ("source", "fake", "integers")
"""Links of a chain, as `MetricValue` names them."""


@dataclass(kw_only=True)
class Chain(ABC):
    """A chain from a float model to our integers, with the sums of what was compared.

    Attributes:
        name: Name of the quantised model.
        reference: Name of the float model.
        outputs: Names of the outputs, which both models have.
        runtime: What computes the other links.
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
        """Return the model that regions for the NPU are cut from."""

    def keep(self, **links: Mapping[str, Array]) -> None:
        """Keep the outputs of one sample, by link and name."""
        for link, values in links.items():
            self.results[link].append([values[name] for name in self.outputs])

    @property
    def samples(self) -> int:
        """Number of samples that were compared."""
        return len(self.results["integers"])

    def report(self, board: str, given: int, metric: Metric | None) -> AccuracyReport:
        """Return the report of the compared samples."""
        rows: dict[str, Sequence[Sequence[Array]]] = {
            link: found[: self.samples] for link, found in self.results.items()
        }
        links = {link: stacked(self.outputs, found) for link, found in rows.items()}
        value = None
        if metric is not None:
            found = {link: metric(outputs, links["source"]) for link, outputs in links.items()}
            value = MetricValue(
                name=metric.name,
                drop=metric.drop(found["integers"], found["source"]),
                less_is_better=metric.less_is_better,
                **found,
            )
        return AccuracyReport(
            model=self.name,
            reference=self.reference,
            board=board,
            samples=self.samples,
            given=given,
            layers=tuple(layer.record() for layer in self.layers),
            outputs=tuple(
                OutputAccuracy(
                    name=output,
                    fake=errors(error_of(links["fake"][output], links["source"][output])),
                    integers=errors(error_of(links["integers"][output], links["source"][output])),
                )
                for output in self.outputs
            ),
            metric=value,
            uncovered=self.uncovered,
            middle=self.middle,
            runtime=self.runtime,
        )
