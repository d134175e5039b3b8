# SPDX-License-Identifier: Apache-2.0
"""Search for the layers that stay in float so that a metric of a quantised model holds: the fewest, or the cheapest.

1. Each layer is quantised alone, all others in float: its noise at the outputs.
2. In the order of noise, or of noise a cycle, the shortest prefix in float that holds the bound, by bisection.
3. Layers of the prefix go back to integers one by one, as long as the bound holds.

Every model is computed by onnxruntime, in float between quantise and dequantise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from arm_ext.common.errors import ModelError
from arm_ext.quantization.error_sums import error_of
from arm_ext.quantization.float_layers import Unit
from arm_ext.quantization.metrics import Metric, Outputs, stacked
from arm_ext.quantization.session import Session
from arm_ext.quantization.steps import Feed

Build = Callable[[Sequence[str]], onnx.ModelProto]
"""Source nodes that stay in float → the QDQ model."""

_SEEN = 32
"""Samples that show the noise of a layer, spread evenly; the metric is of all."""

_TINY = 1e-30
"""Stands in for the power of outputs that are all zeros."""

_FRONT = 8
"""Lengths of prefixes that are measured for a front, spread evenly."""


@dataclass(frozen=True)
class Trial:
    """A choice of layers in float.

    Attributes:
        floats: Names of the layers in float.
        metric: Metric of the model.
        drop: How much worse the metric is than the float model's.
        holds: Whether the bound holds.
    """

    floats: frozenset[str]
    metric: float
    drop: float
    holds: bool


@dataclass
class Judge:
    """Measures QDQ models against the float one on the same samples.

    Attributes:
        name: Name of the model, for messages.
        source: The float model.
        feeds: Samples to compare on.
        metric: What is measured.
        holds: Whether a metric and its drop from the float model are good enough.
    """

    name: str
    source: onnx.ModelProto
    feeds: Sequence[Feed]
    metric: Metric
    holds: Callable[[float, float], bool]
    exact: Outputs = field(init=False)
    reached: float = field(init=False)

    def __post_init__(self) -> None:
        self._names = [value.name for value in self.source.graph.output]
        self._seen = sorted(
            {round(place) for place in np.linspace(0, len(self.feeds) - 1, min(len(self.feeds), _SEEN))}
        )
        self.exact = self._outputs(self.source, range(len(self.feeds)))
        self.reached = self.metric(self.exact, self.exact)

    def trial(self, model: onnx.ModelProto, floats: frozenset[str]) -> Trial:
        """Return the metric of a model, on all samples."""
        value = self.metric(self._outputs(model, range(len(self.feeds))), self.exact)
        drop = self.metric.drop(value, self.reached)
        return Trial(floats, value, drop, self.holds(value, drop))

    def noise(self, model: onnx.ModelProto) -> float:
        """Return the power of the error over that of the float model's values, summed over outputs."""
        ours = self._outputs(model, self._seen)
        found = [error_of(ours[name], self.exact[name][self._seen]) for name in self._names]
        return sum(each.noise / max(each.signal, _TINY) for each in found)

    def _outputs(self, model: onnx.ModelProto, places: Sequence[int]) -> Outputs:
        session = Session(model, self.name, self._names)
        rows = [session(self.feeds[place]) for place in places]
        return stacked(self._names, [[row[name] for name in self._names] for row in rows])


@dataclass
class Search:
    """The models that were measured.

    Attributes:
        units: Layers that can be in float.
        build: Makes the models.
        judge: Measures the models.
        cycles: Layer → additional cycles in float; None to look for the fewest layers in float.
        trials: Set of layers in float → what was measured.
        noises: Layer → noise at the outputs if this layer alone is quantised.
        complete: Whether the search came to its end.
    """

    units: Sequence[Unit]
    build: Build
    judge: Judge
    cycles: Mapping[str, float] | None = None
    trials: dict[frozenset[str], Trial] = field(default_factory=dict)
    noises: dict[str, float] = field(default_factory=dict)
    complete: bool = False

    def run(self) -> Trial:
        """Return the choice that holds with the fewest layers or cycles; when interrupted, the best so far.

        Raises:
            ModelError: The bound does not hold with all layers in float.
        """
        everything = frozenset(unit.name for unit in self.units)
        self._trial(frozenset())
        if not self._trial(everything).holds:
            raise ModelError(
                f"{self.judge.name}: the bound does not hold with all {len(everything)} layers in float, where the "
                f"metric is {self.trials[everything].metric:.4g}, and in the float model {self.judge.reached:.4g}; "
                "ask for less"
            )
        try:
            if not self.trials[frozenset()].holds or self.cycles is not None:
                self._search(everything)
            self.complete = True
        except KeyboardInterrupt:  # what there is, is kept
            pass
        return min((each for each in self.trials.values() if each.holds), key=self.price)

    def price(self, trial: Trial) -> tuple[float, int]:
        """Return the cost of a choice by the estimates of its layers, and the number of layers in float."""
        floats = trial.floats
        return sum(map(self.cycles.__getitem__, floats)) if self.cycles else len(floats), len(floats)

    def front(self) -> list[Trial]:
        """Return the choices that no other one beats in both metric and price, the cheapest first."""
        found: list[Trial] = []
        for trial in sorted(self.trials.values(), key=lambda each: (self.price(each), not each.holds)):
            if not found or trial.drop < found[-1].drop:
                found.append(trial)
        return found

    def _search(self, everything: frozenset[str]) -> None:
        nodes = {unit.name: unit.nodes for unit in self.units}
        for unit in self.units:
            others = [node for name in everything - {unit.name} for node in nodes[name]]
            self.noises[unit.name] = self.judge.noise(self.build(others))
        for order in self._orders():
            if self.cycles is not None:
                for length in np.linspace(0, len(order), min(_FRONT, len(order)) + 1).round().astype(int):
                    self._trial(frozenset(order[:length]))
            if not self.trials[frozenset()].holds:
                self._shorten(order)

    def _orders(self) -> list[list[str]]:
        """The layers in orders in which they go to float."""
        names, cycles = list(self.noises), self.cycles or {}
        by_noise = sorted(names, key=lambda name: -self.noises[name])
        # A tensor is in float where all is that computes and reads it: layers go with their neighbours.
        padded = [0.0, *self.noises.values(), 0.0]
        around = {name: sum(padded[at : at + 3]) for at, name in enumerate(names)}
        by_stretch = sorted(names, key=lambda name: -around[name])
        if not cycles:
            return [by_noise, by_stretch]
        by_cycle = sorted(names, key=lambda name: -self.noises[name] / max(cycles[name], 1.0))
        return [by_cycle, by_noise, by_stretch]

    def _shorten(self, order: Sequence[str]) -> None:
        short, long = 0, len(order)
        while long - short > 1:
            middle = (short + long) // 2
            if self._trial(frozenset(order[:middle])).holds:
                long = middle
            else:
                short = middle
        floats = frozenset(order[:long])
        extra = self.cycles or {}
        for name in sorted(floats, key=lambda name: (-extra.get(name, 0.0), self.noises[name])):
            if self._trial(floats - {name}).holds:
                floats -= {name}

    def _trial(self, floats: frozenset[str]) -> Trial:
        if floats not in self.trials:
            kept = [node for unit in self.units if unit.name in floats for node in unit.nodes]
            self.trials[floats] = self.judge.trial(self.build(kept), floats)
        return self.trials[floats]
