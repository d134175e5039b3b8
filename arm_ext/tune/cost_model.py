# SPDX-License-Identifier: Apache-2.0
"""Prediction of fast candidates by gradient-boosted trees over features that are known before a build.

MetaSchedule's XGBModel reads features of every store of a scheduled function. Emitting a kernel of `schedules` takes as
long as measuring it, a third of a second. The kernel's estimate, its parameters and the sizes of the workload take
microseconds: these are the features. What is learnt is how far the cost is from the default's, which carries over
from task to task and from core to core.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.kernels import KERNELS, kernel_named
from schedules.composites.workload import Workload
from schedules.cores import Core

LEAST_SAMPLES = 24
"""Number of samples below which candidates are ranked by the kernels' estimates."""

SIZES = 12
"""Sizes of a workload that are features: of its result and of two operands of four axes."""

HASHED = 1009
"""Parameters that are names become numbers below this prime."""

TREES = {"max_depth": 6, "eta": 0.2, "min_child_weight": 1, "nthread": 1, "objective": "reg:squarederror"}
"""Parameters as in MetaSchedule, but with one thread, so that equal samples give the same model."""

ROUNDS = 60


@dataclass(frozen=True)
class Point:
    """A candidate for a workload on a core, with the workload's default (the choice without tuning) for comparison."""

    workload: Workload
    core: Core
    candidate: Candidate
    default: Candidate

    @cached_property
    def ratio(self) -> float:
        """Estimated cycles of the candidate, divided by those of the default."""
        return self._estimate(self.candidate) / max(self._estimate(self.default), 1.0)

    def _estimate(self, candidate: Candidate) -> float:
        return kernel_named(candidate.kernel).estimate(self.workload, candidate.params, self.core)


class CostModel:
    """Predicts costs of candidates relative to the default's cost."""

    def __init__(self) -> None:
        self._rows: list[npt.NDArray[Any]] = []
        self._ratios: list[float] = []
        self._trees: xgboost.Booster | None = None

    def add(self, measured: Sequence[tuple[Point, float]]) -> None:
        """Add measured candidates, each with its cost relative to the default's, to the training data."""
        self._rows += list(_features([point for point, _ in measured]))
        self._ratios += [ratio for _, ratio in measured]
        if measured and len(self._rows) >= LEAST_SAMPLES:
            data = xgboost.DMatrix(np.array(self._rows), label=np.log(self._ratios))
            self._trees = xgboost.train(TREES, data, num_boost_round=ROUNDS)

    def predict(self, points: Sequence[Point]) -> npt.NDArray[Any]:
        """Return each point's predicted cost relative to the default's; the estimates while there are few samples."""
        if self._trees is None or not points:
            return np.array([point.ratio for point in points])
        logarithms: npt.NDArray[Any] = self._trees.predict(xgboost.DMatrix(_features(points)))
        ratios: npt.NDArray[Any] = np.exp(logarithms)
        return ratios


def _features(points: Sequence[Point]) -> npt.NDArray[Any]:
    """Return features [points, features], with NaN for parameters that a point's kernel does not have."""
    table = np.full((len(points), len(_COLUMNS) + SIZES + 3), np.nan, np.float32)
    names = [kernel.NAME for kernel in KERNELS]
    for row, point in zip(table, points, strict=True):
        row[:3] = (
            math.log(max(point.ratio, 1e-6)),
            names.index(point.candidate.kernel),
            point.core.issue_width,
        )
        sizes = list(_sizes(point.workload))[:SIZES]
        row[3 : 3 + len(sizes)] = np.log2(sizes)
        for name, value in _values(asdict(point.candidate.params)):
            row[3 + SIZES + _COLUMNS[name]] = value
    return table


def _sizes(workload: Workload) -> Iterator[int]:
    shapes = [workload.output_shape, *(operand.seen for operand in workload.operands[:2])]
    for shape in shapes:
        yield from (max(1, size) for size in (*(1,) * (4 - len(shape)), *shape)[:4])


def _values(params: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield (name, number) for all parameters; a nested record is replaced by its parameters."""
    for name, value in params.items():
        if isinstance(value, dict):
            yield from _values(value)
        else:
            yield name, zlib.crc32(value.encode()) % HASHED if isinstance(value, str) else float(value)


def _fields(params: Any) -> Iterator[str]:
    for name, kind in params.__annotations__.items():
        yield from _fields(kind) if hasattr(kind, "__dataclass_fields__") else (name,)


_COLUMNS = {
    name: index
    for index, name in enumerate(
        sorted(
            {
                field
                for kernel in KERNELS
                for each in kernel.Params.__mro__
                if "__annotations__" in vars(each)
                for field in _fields(each)
            }
        )
    )
}
"""Name of a parameter → its place among the features."""
