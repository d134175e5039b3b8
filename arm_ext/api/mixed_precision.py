# SPDX-License-Identifier: Apache-2.0
"""Cost and accuracy gain of layers in int16 or float, for `quantize` and `accuracy`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.estimate import Estimate, estimate
from arm_ext.quantization.float_layers import Unit
from arm_ext.quantization.mixed_precision import RUNGS, Build, Judge, Raised, Rung, Search, Trial, built
from arm_ext.report.accuracy.record import LayerCost, MixedPrecision, PrecisionChoice
from arm_ext.target.profiles import Profile, resolve

_CHEAPEST = 6
"""Choices that hold, of those that are the cheapest by the sum of their layers, whose whole model is estimated."""


def choose_precisions(
    units: list[Unit], build: Build, judge: Judge, target: str, bound: str, *, fewest: bool
) -> MixedPrecision:
    """Return which layers must be in int16 or float so that a bound holds, with what each choice costs.

    Args:
        units: Layers that can be above int8.
        build: Makes the models.
        judge: Measures the models.
        target: Profile that cycles are estimated for.
        bound: The bound in words, for messages.
        fewest: Whether to take the fewest layers; else the fastest model.

    Raises:
        ModelError: The bound does not hold with all layers in float, or a model cannot be compiled.
    """
    prices = _Prices(units, build, resolve(target, None))
    integers = prices.by_layer(())
    on, refused = _on_rungs(prices)
    extra = {rung: {name: cost[name] - integers[name] for name in cost} for rung, cost in on.items()}
    search = Search(units, build, judge, None if fewest else extra, tuple(on))
    chosen = search.run()
    priced = {trial: prices.of(trial.raised) for trial in _shown(search, chosen)}
    if not fewest:
        held = {trial: cost.cycles for trial, cost in priced.items() if trial.holds}
        chosen = min(held, key=lambda trial: (held[trial], len(trial.raised)))
    order = sorted(priced, key=lambda trial: (priced[trial].cycles, trial.drop))
    return MixedPrecision(
        target=target,
        metric=judge.metric.name,
        source=judge.reached,
        bound=bound,
        choices=tuple(
            PrecisionChoice(
                layers=_ordered(units, trial.at("float32")),
                int16=_ordered(units, trial.at("int16")),
                metric=trial.metric,
                holds=trial.holds,
                cycles=priced[trial].cycles,
                bytes=priced[trial].weights,
                chosen=trial == chosen,
            )
            for trial in order
            if trial == chosen or _is_in_front(trial, priced)
        ),
        nodes=_nodes(units, chosen.at("float32")),
        int16_nodes=_nodes(units, chosen.at("int16")),
        layers=tuple(
            LayerCost(
                name=unit.name,
                noise=search.noises.get(unit.name),
                cycles=round(integers[unit.name]),
                int16_cycles=round(on["int16"][unit.name]) if "int16" in on else None,
                float_cycles=round(on["float32"][unit.name]),
            )
            for unit in units
        ),
        without_int16=refused,
        complete=search.complete,
    )


def _on_rungs(prices: "_Prices") -> tuple[dict[Rung, Mapping[str, float]], str | None]:
    """Return the cycles of each layer on each rung, and why int16 is none, if it is none."""
    found: dict[Rung, Mapping[str, float]] = {}
    refused = None
    for rung in RUNGS:
        try:
            found[rung] = prices.by_layer(frozenset((unit.name, rung) for unit in prices.units))
        except ModelError as err:
            if rung == "float32":
                raise
            refused = str(err)
    return found, refused


@dataclass
class _Prices:
    units: list[Unit]
    build: Build
    profile: Profile
    _known: dict[Raised, Estimate] = field(default_factory=dict)

    def of(self, raised: Collection[tuple[str, Rung]]) -> Estimate:
        """Return the estimate of a model with layers above int8."""
        key = frozenset(raised)
        if key not in self._known:
            self._known[key] = estimate(import_onnx(built(self.units, self.build, key)), self.profile)
        return self._known[key]

    def by_layer(self, raised: Collection[tuple[str, Rung]]) -> Mapping[str, float]:
        """Return the cycles of each layer in a model; conversions on their own are of none."""
        owners = {node: unit.name for unit in self.units for node in unit.nodes}
        found = dict.fromkeys((unit.name for unit in self.units), 0.0)
        for call in self.of(raised).calls:
            owner = next((owners[name] for name in (call.anchor, *call.sources) if name in owners), None)
            if owner is not None:
                found[owner] += call.selection_cost
        return found


def _shown(search: Search, chosen: Trial) -> list[Trial]:
    """The choices whose whole models are estimated."""
    holding = sorted((t for t in search.trials.values() if t.holds), key=search.price)[:_CHEAPEST]
    ends = [
        search.trials[frozenset()],
        max(search.trials.values(), key=lambda trial: len(trial.at("float32"))),
    ]
    return list(dict.fromkeys([*ends, *search.front(), chosen, *holding]))


def _is_in_front(trial: Trial, priced: Mapping[Trial, Estimate]) -> bool:
    """Whether no other choice is as good and cheaper, or as cheap and better."""

    def key(each: Trial) -> tuple[int, float, int]:
        return priced[each].cycles, each.drop, len(each.raised)

    own = key(trial)
    return not any(
        other <= own and other[1] <= own[1] and other != own
        for other in map(key, priced)
        if other[0] <= own[0]
    )


def _ordered(units: Sequence[Unit], names: Collection[str]) -> tuple[str, ...]:
    return tuple(unit.name for unit in units if unit.name in names)


def _nodes(units: Sequence[Unit], names: Collection[str]) -> tuple[str, ...]:
    return tuple(node for unit in units if unit.name in names for node in unit.nodes)
