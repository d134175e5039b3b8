# SPDX-License-Identifier: Apache-2.0
"""Cost and accuracy gain of layers in int16, float16 or float32, for `quantize --max-drop` and `accuracy --bisect`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from arm_ext.api.npu_division import DividedEstimate, estimate_divided
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.estimate import Estimate, estimate
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.quantization.float16_layers import IN_HALVES
from arm_ext.quantization.float_layers import IntegerLayer, units_of
from arm_ext.quantization.int16_layers import without_effect
from arm_ext.quantization.layers import Matching
from arm_ext.quantization.mixed_precision import (
    PRECISIONS,
    Judge,
    Model,
    Precision,
    PrecisionBuilder,
    Raised,
    Search,
    Trial,
    built,
)
from arm_ext.report.accuracy.record import LayerCost, MixedPrecision, NpuCost, NpuTarget, PrecisionChoice
from arm_ext.target.profiles import Profile, resolve

_CHEAPEST = 6
"""Choices that hold, of those that are the cheapest by the sum of their layers, whose whole model is estimated."""

_OF_FRONT = 10
"""Most choices of the Pareto front that are estimated as whole models, which takes about a second each."""

_HALVES = "fullfp16"
"""LLVM's name of Armv8.2-A's arithmetic on binary16; without it each operation takes conversions more."""

_Estimate = Estimate | DividedEstimate


@dataclass(frozen=True)
class Choices:
    """The precisions above int8 that layers of a quantised model can have, and the builder of such models.

    Attributes:
        units: The layers that can be above it, in execution order.
        able: Precision → the layers that it changes; all can be in float32.
        refused: Precision that is no choice → why.
        build: Makes the models.
        imported: Imports one of them.
    """

    units: list[IntegerLayer]
    able: Mapping[Precision, list[str]]
    refused: Mapping[Precision, str]
    build: PrecisionBuilder
    imported: Callable[[Model], ImportedModel]

    @classmethod
    def of_onnx(cls, matching: Matching, build: PrecisionBuilder) -> "Choices":
        """Return the choices for an ONNX model in QDQ form that was matched with its float source."""
        units = units_of(matching)
        operators = {node.name: node.op_type for node in matching.source.proto.graph.node}
        able: dict[Precision, list[str]] = {
            "int16": [unit.name for unit in units if not without_effect(matching, unit.nodes)],
            "float16": [
                unit.name for unit in units if {operators.get(node, "") for node in unit.nodes} <= IN_HALVES
            ],
            "float32": [unit.name for unit in units],
        }
        return cls(units, able, {}, build, import_onnx)


def choose_precisions(
    choices: Choices,
    judge: Judge,
    target: str,
    bound: str,
    *,
    fewest: bool,
    npu: NpuOptions | None = None,
) -> MixedPrecision:
    """Return the layers that must be in int16 or float so that a bound holds, and the cost of each tried choice.

    KeyboardInterrupt during the search, or while its choices are priced, is no error: it ends that, and what was found
    is kept.

    Args:
        choices: Precisions that each layer of the model can have.
        judge: Measures the models.
        target: Profile that cycles are estimated for.
        bound: The bound in words, for messages.
        fewest: Whether to take the fewest layers; else, and with an NPU, on which fewer layers in float need not be
            faster, the fastest model.
        npu: An Ethos-U that computes what it takes and what gains there. A layer that would leave it in int16 is not
            put there: it goes to float at once.

    Raises:
        UsageError: An option of the NPU is wrong, or asks for a model without operators on the CPU.
        ModelError: The bound does not hold with all layers in float, or a model cannot be compiled.
        EnvError: Vela is not installed.
    """
    if npu is not None and npu.fail_on_fallback:
        raise UsageError(
            "--fail-on-fallback cannot be combined with --max-drop, whose float layers run on the CPU"
        )
    units = choices.units
    prices = _Prices(choices, resolve(target, None), npu)
    precisions = _Precisions.of(choices, prices)
    fewest = fewest and npu is None
    search = Search(
        units, choices.build, judge, None if fewest else precisions.extra(prices), precisions.layers
    )
    chosen = search.run()
    priced = {chosen: prices.of(chosen.raised)}
    try:
        for trial in _shown(search, 0 if fewest else _CHEAPEST):
            priced[trial] = prices.of(trial.raised)
    except KeyboardInterrupt:  # what there is, is kept
        search.complete = False
    if not fewest:
        held = {trial: cost.cycles for trial, cost in priced.items() if trial.holds}
        chosen = min(held, key=lambda trial: (held[trial], len(trial.raised)))
    order = sorted(priced, key=lambda trial: (priced[trial].cycles, trial.drop))
    return MixedPrecision(
        target=target,
        metric=judge.metric.name,
        source=judge.reached,
        bound=bound,
        npu=prices.npu_target(),
        choices=tuple(
            _choice(units, trial, priced[trial], chosen=trial == chosen)
            for trial in order
            if trial == chosen or _is_in_front(trial, priced)
        ),
        nodes=_nodes(units, chosen.at("float32")),
        int16_nodes=_nodes(units, chosen.at("int16")),
        float16_nodes=_nodes(units, chosen.at("float16")),
        layers=tuple(precisions.cost(unit.name, search.noises.get(unit.name), prices) for unit in units),
        without_int16=precisions.refused.get("int16"),
        without_float16=precisions.refused.get("float16"),
        complete=search.complete,
    )


@dataclass
class _Prices:
    """Estimated cycles of models with layers above int8; each model is estimated once."""

    choices: Choices
    profile: Profile
    npu: NpuOptions | None
    _known: dict[Raised, _Estimate] = field(default_factory=dict)
    _kernels: KernelCache = field(default_factory=KernelCache)

    def of(self, raised: Collection[tuple[str, Precision]]) -> _Estimate:
        """Return the estimate of a model with layers above int8."""
        key = frozenset(raised)
        if key not in self._known:
            model = self.choices.imported(built(self.choices.units, self.choices.build, key))
            self._known[key] = (
                estimate(model, self.profile, kernel_cache=self._kernels)
                if self.npu is None
                else estimate_divided(model, self.profile, self.npu)
            )
        return self._known[key]

    def by_layer(self, raised: Collection[tuple[str, Precision]]) -> Mapping[str, float]:
        """Return the estimated cycles of each layer in a model; conversions that belong to no layer are left out."""
        units = self.choices.units
        owners = {node: unit.name for unit in units for node in unit.nodes}
        found = dict.fromkeys((unit.name for unit in units), 0.0)
        for names, cycles in self.of(raised).costs():
            owner = next((owners[name] for name in names if name in owners), None)
            if owner is not None:
                found[owner] += cycles
        return found

    def on_npu(self, raised: Collection[tuple[str, Precision]]) -> frozenset[str]:
        """Return the layers of which the NPU computes at least the quantised products."""
        found = self.of(raised)
        nodes = found.on_npu if isinstance(found, DividedEstimate) else frozenset()
        return frozenset(unit.name for unit in self.choices.units if unit.name in nodes)

    def handover(self) -> float:
        """Return the cycles of one hand-over to the NPU and back to the CPU."""
        target = self.npu_target()
        return 0.0 if target is None else target.handover_us * target.cpu_mhz

    def npu_target(self) -> NpuTarget | None:
        """Return the NPU that cycles are estimated for."""
        found = self.of(())
        if not isinstance(found, DividedEstimate) or found.npu is None:
            return None
        return NpuTarget(
            accelerator=found.npu.accelerator,
            cpu_mhz=found.npu.cpu_mhz,
            npu_mhz=found.npu.npu_mhz,
            handover_us=found.npu.handover_us,
        )


@dataclass(frozen=True)
class _Precisions:
    """Precisions above int8 that the layers can have, the lowest first.

    Attributes:
        layers: Precision → the layers that can have it.
        cycles: Precision → layer → cycles with all layers in it that can be.
        npu: Layer → the precisions in which the NPU computes it, int8 among them.
        refused: Precision that no layer can have → why.
    """

    layers: dict[Precision, list[str]]
    cycles: dict[Precision, Mapping[str, float]]
    npu: dict[str, tuple[str, ...]]
    refused: dict[Precision, str]

    @classmethod
    def of(cls, choices: Choices, prices: _Prices) -> "_Precisions":
        """Find the precisions of each layer.

        Raises:
            ModelError: A model in int8 or float32 cannot be compiled.
        """
        able, refused = dict(choices.able), dict(choices.refused)
        if able.get("float16") and _HALVES not in prices.profile.features:
            able["float16"], refused["float16"] = [], f"{prices.profile.name} lacks {_HALVES}"
        found = cls({}, {}, {}, refused)
        in_int8 = prices.on_npu(())
        on: dict[str, frozenset[str]] = {"int8": in_int8}
        for precision in PRECISIONS:
            raised = frozenset((name, precision) for name in able.get(precision, ()))
            try:
                cycles = prices.by_layer(raised) if raised else {}
            except ModelError as err:
                if precision == "float32":
                    raise
                refused[precision] = str(err)
                continue
            if precision == "int16" and prices.npu is not None and raised:
                on[precision] = prices.on_npu(raised)
                able[precision] = [
                    name for name in able[precision] if name in on[precision] or name not in in_int8
                ]
                if not able[precision]:
                    refused[precision] = "every layer would leave the NPU"
            if able.get(precision):
                found.layers[precision], found.cycles[precision] = able[precision], cycles
        for unit in choices.units:
            found.npu[unit.name] = tuple(precision for precision, names in on.items() if unit.name in names)
        return found

    def extra(self, prices: _Prices) -> dict[Precision, dict[str, float]]:
        """Return the extra cycles of each layer compared with int8, with a hand-over if it leaves the NPU."""
        integers, handover = prices.by_layer(()), prices.handover()

        def left(name: str, precision: Precision) -> float:
            return handover if "int8" in self.npu[name] and precision not in self.npu[name] else 0.0

        return {
            precision: {
                name: cycles[name] - integers[name] + left(name, precision) for name in self.layers[precision]
            }
            for precision, cycles in self.cycles.items()
        }

    def cost(self, name: str, noise: float | None, prices: _Prices) -> LayerCost:
        """Return the record of a layer."""

        def on(precision: Precision) -> int | None:
            return round(self.cycles[precision][name]) if name in self.layers.get(precision, ()) else None

        return LayerCost(
            name=name,
            noise=noise,
            cycles=round(prices.by_layer(())[name]),
            int16_cycles=on("int16"),
            float16_cycles=on("float16"),
            float_cycles=round(self.cycles["float32"][name]),
            npu=self.npu[name],
        )


def _choice(units: Sequence[IntegerLayer], trial: Trial, cost: _Estimate, *, chosen: bool) -> PrecisionChoice:
    npu = None
    if isinstance(cost, DividedEstimate):
        regions = () if cost.npu is None else cost.npu.regions
        npu = NpuCost(
            regions=len(regions), mac_share=cost.mac_share, cycles=cost.npu_cycles, cpu_cycles=cost.cpu.cycles
        )
    return PrecisionChoice(
        layers=_ordered(units, trial.at("float32")),
        int16=_ordered(units, trial.at("int16")),
        float16=_ordered(units, trial.at("float16")),
        metric=trial.metric,
        holds=trial.holds,
        cycles=cost.cycles,
        npu=npu,
        bytes=cost.weights,
        chosen=chosen,
    )


def _shown(search: Search, cheapest: int) -> list[Trial]:
    """Return the choices to report: the `cheapest` that hold the bound, all int8, most float32, and of the front."""
    holding = sorted((t for t in search.trials.values() if t.holds), key=search.price)[:cheapest]
    ends = [
        search.trials[frozenset()],
        max(search.trials.values(), key=lambda trial: len(trial.at("float32"))),
    ]
    front = search.front()
    spread = [front[round(at)] for at in np.linspace(0, len(front) - 1, min(len(front), _OF_FRONT))]
    return list(dict.fromkeys([*holding, *ends, *spread]))


def _is_in_front(trial: Trial, priced: Mapping[Trial, _Estimate]) -> bool:
    """Whether a choice is on the Pareto front: no other one is as good and cheaper, or as cheap and better."""

    def key(each: Trial) -> tuple[int, float, int]:
        return priced[each].cycles, each.drop, len(each.raised)

    own = key(trial)
    return not any(
        other <= own and other[1] <= own[1] and other != own
        for other in map(key, priced)
        if other[0] <= own[0]
    )


def _ordered(units: Sequence[IntegerLayer], names: Collection[str]) -> tuple[str, ...]:
    return tuple(unit.name for unit in units if unit.name in names)


def _nodes(units: Sequence[IntegerLayer], names: Collection[str]) -> tuple[str, ...]:
    return tuple(node for unit in units if unit.name in names for node in unit.nodes)
