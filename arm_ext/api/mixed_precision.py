# SPDX-License-Identifier: Apache-2.0
"""Cost and accuracy gain of layers that stay in float, for `quantize` and `accuracy`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.estimate import Estimate, estimate
from arm_ext.quantization.float_layers import Unit
from arm_ext.quantization.mixed_precision import Build, Judge, Search, Trial
from arm_ext.report.accuracy.record import FloatLayers, LayerCost, MixedPrecision
from arm_ext.target.profiles import Profile, resolve

_CHEAPEST = 6
"""Choices that hold, of those that are the cheapest by the sum of their layers, whose whole model is estimated."""


def choose_float_layers(
    units: list[Unit], build: Build, judge: Judge, target: str, bound: str, *, fewest: bool
) -> MixedPrecision:
    """Return which layers must stay in float so that a bound holds, with what each choice costs.

    Args:
        units: Layers that can be in float.
        build: Makes the models.
        judge: Measures the models.
        target: Profile that cycles are estimated for.
        bound: The bound in words, for messages.
        fewest: Whether to take the fewest layers; else the fastest model.

    Raises:
        ModelError: The bound does not hold with all layers in float, or a model cannot be compiled.
    """
    prices = _Prices(units, build, resolve(target, None))
    integers, floats = prices.by_layer(()), prices.by_layer([unit.name for unit in units])
    extra = {name: floats[name] - integers[name] for name in floats}
    search = Search(units, build, judge, None if fewest else extra)
    chosen = search.run()
    priced = {trial: prices.of(trial.floats) for trial in _shown(search, chosen)}
    if not fewest:
        held = {trial: cost.cycles for trial, cost in priced.items() if trial.holds}
        chosen = min(held, key=lambda trial: (held[trial], len(trial.floats)))
    order = sorted(priced, key=lambda trial: (priced[trial].cycles, trial.drop))
    return MixedPrecision(
        target=target,
        metric=judge.metric.name,
        source=judge.reached,
        bound=bound,
        choices=tuple(
            FloatLayers(
                layers=_ordered(units, trial.floats),
                metric=trial.metric,
                holds=trial.holds,
                cycles=priced[trial].cycles,
                bytes=priced[trial].weights,
                chosen=trial == chosen,
            )
            for trial in order
            if trial == chosen or _is_in_front(trial, priced)
        ),
        nodes=tuple(node for unit in units if unit.name in chosen.floats for node in unit.nodes),
        layers=tuple(
            LayerCost(
                name=unit.name,
                noise=search.noises.get(unit.name),
                cycles=round(integers[unit.name]),
                float_cycles=round(floats[unit.name]),
            )
            for unit in units
        ),
        complete=search.complete,
    )


@dataclass
class _Prices:
    units: list[Unit]
    build: Build
    profile: Profile
    _known: dict[frozenset[str], Estimate] = field(default_factory=dict)

    def of(self, floats: Collection[str]) -> Estimate:
        """Return the estimate of a model with layers in float."""
        key = frozenset(floats)
        if key not in self._known:
            kept = [node for unit in self.units if unit.name in key for node in unit.nodes]
            self._known[key] = estimate(import_onnx(self.build(kept)), self.profile)
        return self._known[key]

    def by_layer(self, floats: Collection[str]) -> Mapping[str, float]:
        """Return the cycles of each layer in a model; conversions on their own are of none."""
        owners = {node: unit.name for unit in self.units for node in unit.nodes}
        found = dict.fromkeys((unit.name for unit in self.units), 0.0)
        for call in self.of(floats).calls:
            owner = next((owners[name] for name in (call.anchor, *call.sources) if name in owners), None)
            if owner is not None:
                found[owner] += call.cycles
        return found


def _shown(search: Search, chosen: Trial) -> list[Trial]:
    """The choices whose whole models are estimated."""
    holding = sorted((t for t in search.trials.values() if t.holds), key=search.price)[:_CHEAPEST]
    ends = [search.trials[frozenset()], max(search.trials.values(), key=lambda trial: len(trial.floats))]
    return list(dict.fromkeys([*ends, *search.front(), chosen, *holding]))


def _is_in_front(trial: Trial, priced: Mapping[Trial, Estimate]) -> bool:
    """Whether no other choice is as good and cheaper, or as cheap and better."""

    def key(each: Trial) -> tuple[int, float, int]:
        return priced[each].cycles, each.drop, len(each.floats)

    own = key(trial)
    return not any(
        other <= own and other[1] <= own[1] and other != own
        for other in map(key, priced)
        if other[0] <= own[0]
    )


def _ordered(units: list[Unit], names: Collection[str]) -> tuple[str, ...]:
    return tuple(unit.name for unit in units if unit.name in names)
