# SPDX-License-Identifier: Apache-2.0
"""Builds that `advise` compares: each is compiled, measured and deleted."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from arm_ext.api.bench import bound_inputs
from arm_ext.api.packing import Packing
from arm_ext.api.plan import plan, write_planned
from arm_ext.api.profile import profile_package
from arm_ext.api.run import inputs_of
from arm_ext.common.distance import distance
from arm_ext.common.errors import UsageError
from arm_ext.common.scratch import temporary
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import prepared
from arm_ext.package import Package, Selftest
from arm_ext.quantization.quantize_model import import_given
from arm_ext.quantization.samples import split_samples
from arm_ext.report.advice.alternatives import WITHOUT_KERNEL
from arm_ext.report.advice.changes import Changed
from arm_ext.report.profile.record import ProfiledCall, ProfileReport
from arm_ext.report.report import CompileReport
from arm_ext.shapes.given import buckets_of, dims_text, static_shapes
from relay_passes.canonicalize.canonicalize import without_rules

Arrays = Mapping[str, npt.NDArray[Any]]

_ARGUMENTS = {WITHOUT_KERNEL: "without"}  # options whose argument in Python has another name


@dataclass(frozen=True)
class MeasuredBuild:
    """Measurements of one build, whose package has been deleted.

    Attributes:
        report: The compiler's report on it.
        profile: Profile of one inference.
        inputs: The inputs that all builds are compared on.
        outputs: Outputs for them; empty if they were not computed.
        selftest: The package's self-test.
    """

    report: CompileReport
    profile: ProfileReport
    inputs: Arrays
    outputs: Arrays
    selftest: Selftest

    @property
    def cost(self) -> float:
        """Cost of one inference: in cycles on a virtual board, in microseconds on a real one."""
        return float(self.profile.cycles_with_caches or self.profile.median_us or 0)


@dataclass(frozen=True)
class Bench:
    """Settings and time limit that all builds share.

    Attributes:
        model: The model as the caller gave it.
        target: Name of the profile.
        board: Name of the board to measure on.
        options: Arguments of `compile`.
        samples: The first of these is what builds are compared on; None for the self-test's inputs.
        until: Time after which nothing more is built.
    """

    model: Path
    target: str
    board: str
    options: Mapping[str, Any]
    samples: Arrays | None
    until: float

    def plan(self, options: Mapping[str, Any]) -> Packing:
        """Run the phases on the model with further options of `compile`, named as on the command line."""
        return self._plan(self.model, options)

    def measure(self, planned: Packing, present: MeasuredBuild | None = None) -> MeasuredBuild:
        """Link and measure a planned package of the model; compare its outputs with those of `present`, if given."""
        return self._measured(planned, present)

    def measure_model(self, model: onnx.ModelProto, present: MeasuredBuild) -> MeasuredBuild:
        """Measure another model on the inputs of the present build; --shape and --value do not apply to it."""
        return self._measured(self._plan(model, {"values": None, "shapes": None}), present)

    def measure_changed(
        self, changed: Changed, present: MeasuredBuild, options: Mapping[str, Any] | None = None
    ) -> MeasuredBuild:
        """Measure a changed model on the present build's inputs; its outputs are transposed to the present layout.

        A model whose outputs mean something else is not run for them.

        Args:
            changed: The change, of the model as `imported` returns it.
            present: The model as it is.
            options: Further options of `compile`, by their names on the command line.
        """
        moved = {
            name: np.transpose(value, changed.inputs[name]) if name in changed.inputs else value
            for name, value in present.inputs.items()
        }
        planned = self._plan(self.model, options or {}, lambda model: changed.applied(_without_rules(model)))
        build = self._measured(planned, present, moved if changed.comparable else None)
        outputs = {
            name: np.transpose(value, changed.outputs[name]) if name in changed.outputs else value
            for name, value in build.outputs.items()
        }
        return replace(build, outputs=outputs if changed.comparable else {})

    def _measured(
        self, planned: Packing, present: MeasuredBuild | None, inputs: Arrays | None = None
    ) -> MeasuredBuild:
        with temporary() as folder:
            # Outputs are compared here instead of by the self-test: a package with the present build's tensors gets
            # the present self-test, since computing another one takes as long as a build.
            result = write_planned(
                planned, folder / "model.armpkg", None if present is None else present.selftest
            )
            package = result.package
            given = self._inputs(package) if inputs is None else inputs
            names = [output.name for output in package.manifest.outputs]
            selftest = package.selftest()
            values = inputs_of(package, selftest.inputs, given)
            found: list[npt.NDArray[Any]] = []
            measured = profile_package(
                package, self.board, loaded=lambda loaded: found.extend(loaded.run(values))
            )
        return MeasuredBuild(result.report, measured, given, dict(zip(names, found, strict=True)), selftest)

    def _plan(
        self,
        model: Path | onnx.ModelProto,
        options: Mapping[str, Any],
        change: Callable[[ImportedModel], ImportedModel] = lambda model: model,
    ) -> Packing:
        own = {_ARGUMENTS.get(name, name): value for name, value in options.items()}
        return plan(model, self.target, change=change, **{**self.options, **own})

    def _inputs(self, package: Package) -> Arrays:
        """Return the first sample, or else the inputs of the self-test."""
        specs = [tensor.spec() for tensor in package.manifest.inputs]
        if self.samples is None:
            names = [spec.name for spec in specs]
            return dict(zip(names, bound_inputs(package), strict=False))
        return split_samples(self.samples, specs)[0]

    def shapes(self) -> Shapes | None:
        """Return the shapes that the caller gave; None if they contain lists or run-time sizes."""
        try:
            return static_shapes(self.options["shapes"], "advise")
        except UsageError:
            return None

    def imported(
        self, quantize: Mapping[str, Any] | None = None, *, npu: bool = False
    ) -> ImportedModel | None:
        """Return the model after rewrite rules and constant folding; None if it is compiled for several shapes.

        Preprocessing is not a part of it, and inputs whose values the caller gave are constants. A size that is
        known at run time is 1 sample, or the length of the self-test.

        Args:
            quantize: Options of `compile` by which it is quantised, if it is.
            npu: Whether an NPU is to compute parts of it.
        """
        buckets, q = buckets_of(self.options["shapes"]), quantize or {}
        if len(buckets) > 1:
            return None
        given = prepared(self.model, self.options["values"], trust=self.options["trust"])
        model = import_given(given, buckets[0].shapes, q.get("quantize"), q.get("calibration", "minmax"))
        if npu and model.for_npu is not None:
            model = model.for_npu()
        return _without_rules(model)

    def given(self) -> dict[str, Any]:
        """Return the options that the caller gave, named as on the command line."""
        shapes = self.options["shapes"] or {}
        found = {
            "mattr": self.options["mattr"],
            "shape": [f"{name}={dims_text(dims)}" for name, dims in shapes.items()],
            "trust": self.options["trust"],
            "plugin": [str(path) for path in self.options["plugins"]],
            "value": [f"{name}={_numbers(given)}" for name, given in (self.options["values"] or {}).items()],
            "preprocess": self.options["preprocess"] and str(self.options["preprocess"]),
        }
        return {"target": self.target} | {name: value for name, value in found.items() if value}

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return monotonic() >= self.until


def _without_rules(model: ImportedModel) -> ImportedModel:
    return replace(model, mod=without_rules(model.mod))


def cost_of(anchor: str, measured: ProfileReport) -> float | None:
    """Return the cost of all calls that a source node is the anchor of; None if there are none."""
    calls = [call for call in measured.calls if call.anchor == anchor]
    return sum(cost_of_call(call) for call in calls) if calls else None


def cost_of_call(call: ProfiledCall) -> float:
    """Return the cost of a call in cycles or microseconds."""
    return float(call.counts.cycles_with_caches if call.counts else call.times.median_us if call.times else 0)


def error_at_outputs(outputs: Arrays, references: Arrays) -> float:
    """Return the maximum error of an output, relative to its largest value; for integers, the share that differs."""
    errors = [0.0]
    for name, reference in references.items():
        found = distance(outputs[name], reference)
        errors.append(found.relative if reference.dtype.kind == "f" else found.differing)
    return max(errors)


def _numbers(given: npt.ArrayLike) -> str:
    """Return the numbers of --value as text for a command line."""
    return ",".join(json.dumps(number) for number in np.ravel(given).tolist())
