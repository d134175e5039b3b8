# SPDX-License-Identifier: Apache-2.0
"""Bounds on the accuracy of a quantised model, for CI."""

import math
from dataclasses import dataclass

from arm_ext.common.errors import UsageError
from arm_ext.common.text import counted, told_apart
from arm_ext.report.accuracy.record import AccuracyReport

_ROUNDING = 1e-9
"""Tolerance for a difference of two shares: 0.99 - 0.98 is more than 0.01 in binary."""


@dataclass(frozen=True)
class Gate:
    """The minimum accuracy that a quantised model, computed in integers, must have; a NaN value meets no bound.

    Attributes:
        min_sqnr: Least SQNR of each output in dB.
        least: A metric and its least value.
        max_drop: Greatest drop of the report's metric from the source.
    """

    min_sqnr: float | None = None
    least: tuple[str, float] | None = None
    max_drop: float | None = None

    def __post_init__(self) -> None:
        bounds = {
            "--min-sqnr": self.min_sqnr,
            "--min": None if self.least is None else self.least[1],
            "--max-drop": self.max_drop,
        }
        for option, bound in bounds.items():
            if bound is not None and math.isnan(bound):
                raise UsageError(f"{option} {bound}: expected a number")

    def holds(self, value: float, drop: float) -> bool:
        """Return whether a metric and its drop from the source are within the bounds."""
        enough = self.least is None or value >= self.least[1]
        return enough and (self.max_drop is None or drop <= self.max_drop + _ROUNDING)

    def describe(self, metric: str) -> str:
        """Return the bounds on a metric as text: "top1 at most 1 % worse than the float model's"."""
        least = [] if self.least is None else [f"at least {self.least[1]:g}"]
        drop = (
            []
            if self.max_drop is None
            else [f"at most {100 * self.max_drop:g} % worse than the float model's"]
        )
        return f"{metric} {' and '.join(least + drop)}"

    def check(self, metric: str | None, samples: int, *, less_is_better: bool = False) -> None:
        """Check that the bounds can be applied to the report's metric.

        Raises:
            UsageError: There is no metric, there are too few samples, or a least value is asked of a metric that counts
                errors.
        """
        if self.least is not None and less_is_better:
            raise UsageError(
                f"--min {metric}: lower values of this metric are better; bound it by --max-drop"
            )
        if self.max_drop is None:
            return
        if metric is None:
            raise UsageError("--max-drop: the data has no array 'labels' for top1; name a --metric")
        if metric in ("top1", "top5") and 0 < self.max_drop < 1 / samples:
            raise UsageError(
                f"--max-drop {100 * self.max_drop:g}% cannot be measured on {counted(samples, 'sample')}, of "
                "which each is "
                f"{100 / samples:.3g} %: give at least {round(1 / self.max_drop)}"
            )

    def missed(self, report: AccuracyReport) -> list[str]:
        """Return a sentence for each bound that a model misses.

        Raises:
            UsageError: The report has no metric, or another one, or too few samples to tell a drop.
        """
        found = [
            "output {} has {} dB, and --min-sqnr is {}".format(
                each.name, *told_apart((each.integers.sqnr_db, self.min_sqnr), 3)
            )
            for each in report.outputs
            if self.min_sqnr is not None and not each.integers.sqnr_db >= self.min_sqnr
        ]
        value = report.metric
        if report.unmeasured is not None and (self.least is not None or self.max_drop is not None):
            raise UsageError(report.unmeasured)
        if value is None:
            self.check(None, report.samples)
        else:
            self.check(value.name, report.samples, less_is_better=value.less_is_better)
        if self.least is not None:
            name, bound = self.least
            if value is None or value.name != name:
                raise UsageError(f"--min {name}: the report has {value.name if value else 'no metric'}")
            if not value.integers >= bound:
                found.append("{} is {}, and --min {}".format(name, *told_apart((value.integers, bound))))
        if self.max_drop is not None and value is not None and not value.drop <= self.max_drop + _ROUNDING:
            moved = "rises" if value.less_is_better else "drops"
            source, ours = told_apart((value.source, value.integers))
            drop, most = told_apart((value.drop, self.max_drop))
            found.append(f"{value.name} {moved} from {source} to {ours}, by {drop}, and --max-drop is {most}")
        return found
