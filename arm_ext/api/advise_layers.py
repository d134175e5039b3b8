# SPDX-License-Identifier: Apache-2.0
"""Alternatives for parts of a model, built and measured: a layer in int8, float calls in int8, regions on an NPU.

A layer in int8 is compiled with all others in float. A region on an NPU has Vela's estimate, with the hand-over,
against the measured calls of its fallback on the CPU, in one package; nothing is run on silicon.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from arm_ext.api.advise_builds import Bench, MeasuredBuild, cost_of_call, error_at_outputs
from arm_ext.common.distance import distance
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import prepared
from arm_ext.package.manifest import Method
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.quantization.float_calls import with_quantized_calls
from arm_ext.quantization.float_layers import IntegerLayer, units_of
from arm_ext.quantization.layers import Matching
from arm_ext.quantization.quantize_model import float_onnx
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.static import Quantizer
from arm_ext.report.advice.changes import Changed, remade
from arm_ext.report.advice.record import CostlyCall, LayerAlternative
from arm_ext.report.npu import NpuRegion, fallback_name
from arm_ext.report.profile.record import ProfiledCall

_LAYERS = 3
"""Costliest layers that are tried in int8; each is a build."""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Int8Layers:
    """Builds and measures a float model with one of its costliest layers in int8.

    Attributes:
        bench: Builds and measures.
        present: The model as it is.
        samples: Calibration samples; None for the inputs of the self-test.
        method: How the range of an activation follows from the samples.
    """

    bench: Bench
    present: MeasuredBuild
    samples: Arrays | None
    method: Method

    def proposed(self, costly: Sequence[CostlyCall]) -> Iterator[LayerAlternative]:
        """Yield rows for the costliest layers that can be quantised; they are not measured yet."""
        owners = {node: unit for unit in self._units for node in unit.nodes}
        found: dict[IntegerLayer, str] = {}
        for call in costly:
            if call.anchor in owners:
                found.setdefault(owners[call.anchor], call.anchor)
        data = "the self-test's inputs, where FILE.npz is to be samples of yours"
        for unit, anchor in list(found.items())[:_LAYERS]:
            yield LayerAlternative(
                name="int8",
                anchor=anchor,
                sources=unit.nodes,
                how=f"arm-ext quantize {self.bench.model} --data FILE.npz --only {','.join(unit.nodes)} -o int8.onnx, "
                "and compile int8.onnx" + (f"; calibrated here on {data}" if self.samples is None else ""),
                now=_cost_of_any(unit.nodes, self.present),
            )

    def measured(self, layer: LayerAlternative) -> tuple[LayerAlternative, MeasuredBuild]:
        """Build and measure the model with a layer in int8; the caller fills in `note`."""
        others = [node.name for node in self._source.graph.node if node.name not in layer.sources]
        model = self._quantizer.quantized(self._shapes, others)
        build = self.bench.measure_model(model, self.present)
        found = {
            "status": "measured",
            "cost": _cost_of_any(layer.sources, build),
            "layer_error": self._error_at(layer, model),
            "error": error_at_outputs(build.outputs, self.present.outputs),
        }
        return layer.model_copy(update=found), build

    def _error_at(self, layer: LayerAlternative, model: onnx.ModelProto) -> float | None:
        """Return the error of a layer's result on the first sample in onnxruntime.

        None if the layer has no float counterpart.
        """
        twins = [
            each for each in Matching(self._source, model).layers if set(each.nodes) & set(layer.sources)
        ]
        if not twins:
            return None
        twin, name = twins[-1], self._source.graph.name
        feed = self._quantizer.feeds()[0]
        exact = TensorSession(self._source, name, [twin.source])(feed)[twin.source]
        return distance(TensorSession(model, name, [twin.value])(feed)[twin.value], exact).relative

    @cached_property
    def _shapes(self) -> Shapes:
        shapes = self.bench.shapes()
        if shapes is None:
            raise UsageError("single layers are quantised only if each input has one shape")
        return shapes

    @cached_property
    def _quantizer(self) -> Quantizer:
        options = self.bench.options
        given = prepared(self.bench.model, options["values"], trust=options["trust"])
        model, _ = float_onnx(given, (self._shapes,))
        samples = self.samples
        if samples is None:
            samples = {name: value[np.newaxis] for name, value in self.present.inputs.items()}
        return Quantizer(model, samples, self.method, (self._shapes,))

    @cached_property
    def _source(self) -> onnx.ModelProto:
        return self._quantizer.float_model(self._shapes)

    @cached_property
    def _units(self) -> list[IntegerLayer]:
        return units_of(Matching(self._source, self._quantizer.quantized(self._shapes)))


def _cost_of_any(anchors: Collection[str], build: MeasuredBuild) -> float:
    """Return the cost of the calls whose anchor is one of these source nodes."""
    return sum(cost_of_call(call) for call in build.profile.calls if call.anchor in anchors)


def calls_of_region(region: NpuRegion, build: MeasuredBuild) -> list[ProfiledCall]:
    """Return the kernel calls by which the CPU computes a region without the NPU."""
    fallback = fallback_name(region.index)
    return [call for call in build.profile.calls if fallback in call.function.split("/")]


@remade
def quantized(model: ImportedModel, nodes: tuple[str, ...], inputs: Arrays) -> Changed | None:
    """Return a quantised model in which float calls of some source nodes are in int8, too.

    None if that is not possible.

    Args:
        model: The model.
        nodes: Names of source nodes.
        inputs: A sample that ranges are taken from; without one there are none.
    """
    fit = all(spec.name in inputs and not spec.check(inputs[spec.name]) for spec in model.inputs)
    made = with_quantized_calls(model, nodes, inputs, run_on_host) if fit else None
    return None if made is None else Changed(made, nodes, "quantised")


@dataclass(frozen=True)
class NpuRegions:
    """The regions that `compile --npu` makes of a quantised model, each compared with its code on the CPU.

    Attributes:
        bench: Builds and measures, on a virtual board.
        present: The model as it is, on the CPU.
        npu: The accelerator, and how to divide.
        quantize: Options that quantise the model, where it is float.
    """

    bench: Bench
    present: MeasuredBuild
    npu: NpuOptions
    quantize: Mapping[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """Options of `compile` that make the regions."""
        return {**self.quantize, "npu": self.npu}

    @cached_property
    def build(self) -> MeasuredBuild:
        """Build the model with the NPU and measure it on the CPU.

        Raises:
            UsageError, ModelError, EnvError: As `compile` with `--npu`, and as `profile`.
        """
        return self.bench.measure(self.bench.plan(self.options), self.present)

    def measured(self) -> Iterator[LayerAlternative]:
        """Yield the regions, or one row with the reason why there are none.

        The caller fills in `note` of a region.

        Raises:
            UsageError, ModelError, EnvError: As `compile` with `--npu`, and as `profile`.
        """
        build = self.build
        found = build.report.npu
        if found is None:
            return
        if not found.regions:
            why = "; ".join(dict.fromkeys(reason.reason for reason in found.reasons[:1]))
            yield LayerAlternative(
                name=self.npu.accelerator,
                anchor="-",
                sources=(),
                how=f"--npu {self.npu.accelerator}",
                note=f"all of it stays on the CPU: {why}",
                now=build.cost,
            )
            return
        error = error_at_outputs(build.outputs, self.present.outputs)
        for region in found.regions:
            yield self._row(region, found.cpu_mhz, build, error)

    def _row(self, region: NpuRegion, cpu_mhz: float, build: MeasuredBuild, error: float) -> LayerAlternative:
        own = calls_of_region(region, build)
        now = sum(cost_of_call(call) for call in own)
        then = region.npu_us * cpu_mhz
        heaviest = max(own, key=lambda call: (call.macs, -call.index), default=None)
        return LayerAlternative(
            name=self.npu.accelerator,
            anchor=heaviest.anchor if heaviest else region.sources[0],
            sources=region.sources,
            how=f"--npu {self.npu.accelerator}, region {region.index} of {len(region.sources)} source nodes: "
            f"{region.cycles:,} cycles of the NPU by Vela's estimate and the hand-over, at {cpu_mhz:g} MHz of the CPU",
            status="measured",
            now=now,
            cost=then,
            gain=(now - then) / build.cost,
            error=error,
        )
