# SPDX-License-Identifier: Apache-2.0
"""Bounds on the accuracy of a quantised model, for CI."""

from dataclasses import dataclass

from arm_ext.errors import UsageError
from arm_ext.report.accuracy.record import AccuracyReport


@dataclass(frozen=True)
class Gate:
    """The least accuracy that a quantised model, computed in integers, must have.

    Attributes:
        min_sqnr: Least SQNR of each output in dB.
        least: A metric and its least value.
        max_drop: Greatest drop of the report's metric from the source.
    """

    min_sqnr: float | None = None
    least: tuple[str, float] | None = None
    max_drop: float | None = None

    def missed(self, report: AccuracyReport) -> list[str]:
        """Return which bounds a model misses, in words.

        Raises:
            UsageError: The report has no metric, or another one, or too few samples to tell a drop.
        """
        found = [
            f"output {each.name} has {each.integers.sqnr_db:.1f} dB, and --min-sqnr is {self.min_sqnr:g}"
            for each in report.outputs
            if self.min_sqnr is not None and each.integers.sqnr_db < self.min_sqnr
        ]
        value = report.metric
        if self.least is not None:
            name, bound = self.least
            if value is None or value.name != name:
                raise UsageError(f"--min {name}: the report has {value.name if value else 'no metric'}")
            if value.integers < bound:
                found.append(f"{name} is {value.integers:.4g}, and --min {bound:g}")
        if self.max_drop is not None:
            if value is None:
                raise UsageError("--max-drop: the data has no array 'labels' for top1; name a --metric")
            if value.name == "top1" and 0 < self.max_drop < 1 / report.samples:
                raise UsageError(
                    f"--max-drop {100 * self.max_drop:g}% cannot be told on {report.samples} samples, where one is "
                    f"{100 / report.samples:.2g} %: give at least {round(1 / self.max_drop)}"
                )
            if value.drop > self.max_drop:
                found.append(
                    f"{value.name} drops from {value.source:.4g} to {value.integers:.4g}, and --max-drop is "
                    f"{self.max_drop:g}"
                )
        return found
