# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.advise`: options and model changes that would make a model faster, built and measured."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from arm_ext.api.advise_builds import Arrays, Bench, MeasuredBuild, cost_of, error_at_outputs
from arm_ext.api.advise_layers import Int8Layers, NpuRegions, quantized
from arm_ext.api.arguments import check_type
from arm_ext.api.options import IMPORT, Options, gathered
from arm_ext.api.packing import Packing
from arm_ext.api.plan import planned_calls
from arm_ext.api.plugins import with_plugins
from arm_ext.api.sample_shapes import shaped_by
from arm_ext.board.spec import parse_spec
from arm_ext.common.errors import ArmExtError, UsageError
from arm_ext.common.scratch import temporary
from arm_ext.ethosu.options import NpuOptions, require_packages
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.package.manifest import Method
from arm_ext.quantization.samples import read_calibration
from arm_ext.report.advice.alternatives import (
    WORTH_BUILDING,
    alternatives,
    exclude,
    int8_alternative,
    is_part,
    is_quantized,
    merged_options,
)
from arm_ext.report.advice.changes import Changed
from arm_ext.report.advice.failure import Failure, told
from arm_ext.report.advice.prediction import predicted_gain
from arm_ext.report.advice.record import (
    SPENT,
    Advice,
    AdviceReport,
    Alternative,
    CostlyCall,
    Declined,
    LayerAlternative,
    Status,
)
from arm_ext.report.advice.rules import AdviceFinding, Subject, findings
from arm_ext.report.profile.record import ProfiledCall
from arm_ext.target.profiles import resolve
from arm_ext.tune.database import Database

STEPS = ("the model as it is", "alternatives", "all together", "single layers", "changes of the model")
"""Steps of `advise`, for a progress display."""

MAX_ERROR = 0.05
"""Default error limit of recommended options: the largest difference at an output, relative to the largest |output|."""

# Smaller gains do not count, because times vary.
_LEAST_GAIN_OF_COUNTS, _LEAST_GAIN_OF_TIMES = 0.005, 0.03
_COSTLIEST = 5
_MINUTE = 60

_Predicted = tuple[Alternative, Packing | None]


@with_plugins
@shaped_by("inputs", "quantize")
def advise(
    model: str | Path,
    target: str = "arm",
    board: str = "virtual",
    options: Options | None = None,
    *,
    max_error: float = MAX_ERROR,
    budget: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> AdviceReport:
    """Measure a model as it is, with other options of `compile`, and with changes of the model that could be faster.

    An alternative that cannot be built or measured has the error in its row; the others are measured.

    Args:
        model: A file of any format that `compile` takes.
        target: Name of a profile.
        board: Board to measure on, such as "virtual", "local", "ssh://user@host" or "host:port".
        options: Options in one record.
        max_error: Largest error at the outputs that recommended options may have.
        budget: Minutes after which nothing more is built.
        progress: Called with each of STEPS as it begins.
        more: Options by keyword: those by which a model is read, `mattr`, `tuned` and `npu`, as for `compile`. What
            `quantize`, `tuned` and `npu` (on a virtual board, estimated by Vela) bring is tried beside the model as it
            is; int8 outputs are compared on the first sample, unless preprocessing changes the model's inputs.

    Raises:
        UsageError: An argument is invalid, or the model is no file.
        ModelError: The unchanged model cannot be compiled.
        EnvError: The board cannot be reached at the start, or llvm-mca is missing.
    """
    check_type("board", board, str)
    o = gathered("advise", Options, options, more, IMPORT | {"mattr", "tuned", "npu"})
    if not Path(model).is_file():
        raise UsageError(
            f"{model}: no such model file; advise builds a model with other options, so it needs a model file, "
            "not a package"
        )
    if o.npu is not None:
        if parse_spec(board).kind != "virtual":
            raise UsageError(
                "--npu is compared in cycles, which only a virtual board measures; leave --board out"
            )
        require_packages()
    features = resolve(target, o.mattr).features
    samples = None if o.quantize is None else read_calibration(Path(o.quantize))
    bench = Bench(
        Path(model),
        target,
        board,
        {
            "trust": o.trust,
            "plugins": tuple(o.plugins),
            "values": o.values,
            "mattr": o.mattr,
            "shapes": o.shapes,
            "preprocess": o.preprocess,
        },
        samples if o.preprocess is None else None,
        math.inf if budget is None else monotonic() + budget * _MINUTE,
    )
    if o.tuned is not None:
        Database(o.tuned)  # a missing database is reported before any work
    progress(STEPS[0])
    present = bench.measure(bench.plan({}))
    advisor = _Advisor(bench, present, max_error)
    progress(STEPS[1])
    int8 = None if o.quantize is None else _int8(o.quantize, o.calibration)
    records = None if o.tuned is None else {"tuned": str(o.tuned)}
    found = alternatives(present.profile, present.report, features, int8, records)
    waiting = sorted((advisor.predicted(alternative) for alternative in found), key=_promise)
    tried = []
    while waiting:
        tried.append(advisor.tried(*waiting.pop(0)))
    if o.quantize is None:
        tried += advisor.int8_without_samples(o.calibration)
    progress(STEPS[2])
    together = advisor.together(tried)
    progress(STEPS[3])
    layers: list[LayerAlternative] = []
    if not any(_helps(each) for each in tried if "quantize" in each.options):
        layers += advisor.int8_layers(samples, o.calibration)
    regions = None if o.npu is None else advisor.with_npu(o.npu, int8 or {})
    if regions is not None:
        layers += advisor.npu_regions(regions)
    progress(STEPS[4])
    changes = advisor.changes()
    if regions is not None and not any(each.failure for each in layers):
        changes += advisor.npu_operators(regions)
    return advisor.report(tried, together, layers, changes)


def _int8(samples: str | Path, calibration: Method) -> dict[str, str]:
    other = {} if calibration == "minmax" else {"calibration": calibration}
    return {"quantize": str(samples), **other}


@dataclass(frozen=True)
class _Advisor:
    """Measures alternatives and changes that may be faster than the present build."""

    bench: Bench
    present: MeasuredBuild
    max_error: float

    def report(
        self,
        tried: Sequence[Alternative],
        together: Alternative | None,
        layers: Sequence[LayerAlternative],
        changes: Sequence[Advice | Declined],
    ) -> AdviceReport:
        """Return the report."""
        measured = self.present.profile
        options = {} if together is None else together.options
        return AdviceReport(
            model=measured.model,
            target=measured.target,
            board=measured.board,
            core=measured.core,
            unit="cycles" if measured.kind == "counts" else "us",
            cost=self.present.cost,
            given=self.bench.given(),
            max_error=self.max_error,
            calls=self._costly,
            alternatives=tuple(
                each.model_copy(update={"recommended": is_part(each.options, options)}) for each in tried
            ),
            layers=tuple(layers),
            recommended=options,
            gain=(together and together.gain) or 0.0,
            error=(together and together.error) or 0.0,
            advice=tuple(sorted((each for each in changes if isinstance(each, Advice)), key=_saved_most)),
            declined=tuple(each for each in changes if isinstance(each, Declined)),
            note=measured.note,
        )

    def predicted(self, alternative: Alternative) -> _Predicted:
        """Return an alternative with the gain that its kernels' estimates predict, or why it cannot be planned.

        Also return its plan, unless it is not worth building.
        """
        if self.bench.spent:
            return alternative, None
        try:
            planned = self.bench.plan(alternative.options)
        except Exception as error:
            return _failed(alternative, error), None
        if self.present.report.has_control_flow():  # whose iterations the estimates do not count
            return alternative, planned
        gain = predicted_gain(self.present.profile, self.present.report.calls, planned_calls(planned))
        found = alternative.model_copy(update={"predicted": gain})
        return (found, planned) if _is_worth_building(found) else (found, None)

    def tried(self, alternative: Alternative, planned: Packing | None = None) -> Alternative:
        """Return an alternative with its measurements, or with the reason why it was not built.

        Plan it if there is no plan.
        """
        if alternative.status == "failed":
            return alternative
        if self.bench.spent:
            return alternative.model_copy(update={"note": SPENT})
        if not _is_worth_building(alternative):
            return alternative.model_copy(update={"note": "predicted to be slower"})
        try:
            build = self.bench.measure(planned or self.bench.plan(alternative.options), self.present)
        except Exception as error:
            return _failed(alternative, error)
        gain, at_outputs = self._gain(build), self._error(build)
        found = {
            "status": "measured",
            "cost": build.cost,
            "gain": gain,
            "error": at_outputs,
            "note": self._objection(gain, at_outputs),
            "calls": tuple(cost_of(call.anchor, build.profile) for call in self._costly),
        }
        return alternative.model_copy(update=found)

    def int8_without_samples(self, calibration: Method) -> Iterator[Alternative]:
        """Yield int8 with its predicted gain, for a float model of which there are no calibration samples.

        The prediction takes the self-test's inputs for them, which tell the cost of int8 and not its error.
        """
        if is_quantized(self.present.report) or not self._feed:
            return
        row = int8_alternative({"quantize": "FILE.npz"}).model_copy(update={"note": "give samples of yours"})
        with temporary() as folder:
            samples = folder / "samples.npz"
            np.savez(samples, **{name: value[np.newaxis] for name, value in self._feed.items()})
            options = row.options | _int8(samples, calibration)
            found, _ = self.predicted(row.model_copy(update={"options": options}))
        if found.status != "failed":  # such as that nothing of it can be quantised
            yield row.model_copy(update={"predicted": found.predicted})

    def _objection(self, gain: float, error: float) -> str:
        """Return why an alternative is not recommended; empty if it is."""
        if gain < self._least_gain:
            return "no gain" if gain > -self._least_gain else "slower"
        return "" if error <= self.max_error else f"error above {self.max_error:g}"

    def int8_layers(self, samples: Arrays | None, method: Method) -> Iterator[LayerAlternative]:
        """Yield the costliest layers of a float model, each measured with this layer alone in int8."""
        bench, present = self.bench, self.present
        if is_quantized(present.report) or bench.spent:
            return
        if samples is None and bench.options["preprocess"] is not None:
            return  # with preprocessing, the self-test's inputs are images
        layers = Int8Layers(bench, present, samples, method)
        try:
            proposed = list(layers.proposed(self._costly))
        except ArmExtError:
            return  # onnxruntime cannot quantise any part of it, which the alternative --quantize reports
        for each in proposed:
            yield self._layer(layers, each)

    def _layer(self, layers: Int8Layers, layer: LayerAlternative) -> LayerAlternative:
        if self.bench.spent:
            return layer.model_copy(update={"note": SPENT})
        try:
            found, build = layers.measured(layer)
        except Exception as error:
            fault, said = told(error)
            return layer.model_copy(update={"status": "failed", "failure": fault, "note": said})
        gain = self._gain(build)
        return found.model_copy(update={"gain": gain, "note": self._objection(gain, found.error or 0.0)})

    def with_npu(self, npu: NpuOptions | str, quantize: Mapping[str, str]) -> NpuRegions:
        """Return the regions of the model for an NPU; a float model is quantised by the given options."""
        options = NpuOptions(npu) if isinstance(npu, str) else npu
        quantized = is_quantized(self.present.report)
        return NpuRegions(self.bench, self.present, options, {} if quantized else quantize)

    def npu_regions(self, regions: NpuRegions) -> Iterator[LayerAlternative]:
        """Yield the regions that an NPU would compute, or one row with the reason why there are none."""
        npu = regions.npu
        if self.bench.spent:
            yield _no_regions(npu, self.present, "not built", "", SPENT)
            return
        try:
            for found in regions.measured():
                if found.status != "measured":
                    yield found
                    continue
                yield found.model_copy(
                    update={"note": self._objection(found.gain or 0.0, found.error or 0.0)}
                )
        except Exception as error:
            yield _no_regions(npu, self.present, "failed", *told(error))

    def together(self, tried: Sequence[Alternative]) -> Alternative | None:
        """Return the best combination of compatible options that were faster, measured together.

        None if none was faster.
        """
        good = [each for each in tried if _helps(each)]
        best: Alternative | None = None
        for other in sorted(good, key=lambda each: -(each.gain or 0.0)):
            if best is None:
                best = other
            elif not exclude(best.options, other.options):
                options = merged_options(best.options, other.options)
                both = self.tried(other.model_copy(update={"options": options}))
                if _helps(both) and (both.gain or 0.0) > (best.gain or 0.0):
                    best = both
        return best

    def changes(self) -> list[Advice | Declined]:
        """Return changes of the model that gain, and those that do not; a change is measured if a rule can make it."""
        present = self.present
        subject = Subject(
            present.profile,
            present.report,
            self._model,
            tuple(self._feed),
            self._quantized,
        )
        return [self._change(finding) for finding in findings(subject)]

    def npu_operators(self, regions: NpuRegions) -> list[Advice | Declined]:
        """Return changes that would move operators from the CPU to the NPU."""
        # Not imported above: without an NPU, the packages that this needs may be missing.
        from arm_ext.api.advise_npu_operators import NpuOperators

        return list(
            NpuOperators(regions, self.bench.imported(regions.quantize, npu=True), self._feed).found()
        )

    def _quantized(self, nodes: tuple[str, ...]) -> Changed | None:
        """Return a quantised model with these nodes in int8, too; None if they cannot be quantised."""
        return None if self._model is None else quantized(self._model, nodes, self._feed)

    @cached_property
    def _model(self) -> ImportedModel | None:
        return self.bench.imported()

    @property
    def _feed(self) -> Arrays:
        """Values of the model's own inputs; empty with preprocessing, since the present inputs are then frames."""
        return self.present.inputs if self.bench.options["preprocess"] is None else {}

    def _change(self, finding: AdviceFinding) -> Advice | Declined:
        gain = at_outputs = None
        if finding.change is not None:
            if self.bench.spent:
                return _declined(finding, SPENT)
            try:
                build = self.bench.measure_changed(finding.change, self.present)
            except Exception as error:
                fault, said = told(error)
                return _declined(finding, said, fault)
            gain = self._gain(build)
            at_outputs = self._error(build) if finding.change.comparable else None
            if gain < max(finding.least, self._least_gain):
                change = f"costs {-100 * gain:.1f} % more" if gain < 0 else f"saves {100 * gain:.1f} %"
                return _declined(finding, f"{finding.evidence}; built and measured, it {change}")
        return Advice(
            rule=finding.rule,
            sources=finding.sources,
            evidence=finding.evidence,
            at_most=finding.share,
            gain=gain,
            estimated=finding.estimate if gain is None else None,
            basis=finding.basis if gain is None else "",
            error=at_outputs,
            how=finding.how,
        )

    @property
    def _least_gain(self) -> float:
        return _LEAST_GAIN_OF_COUNTS if self.present.profile.kind == "counts" else _LEAST_GAIN_OF_TIMES

    @cached_property
    def _costly(self) -> tuple[CostlyCall, ...]:
        measured, of_anchor = self.present.profile, dict[str, list[ProfiledCall]]()
        for call in measured.costliest():
            of_anchor.setdefault(call.anchor, []).append(call)
        found = [
            CostlyCall(
                anchor=anchor,
                kernel=calls[0].kernel,
                cost=cost_of(anchor, measured) or 0.0,
                share=sum(call.share for call in calls),
                bound=calls[0].counts.bound if calls[0].counts else None,
                alternatives=calls[0].alternatives,
            )
            for anchor, calls in of_anchor.items()
        ]
        return tuple(sorted(found, key=lambda call: -call.share)[:_COSTLIEST])

    def _gain(self, build: MeasuredBuild) -> float:
        return 1 - build.cost / self.present.cost

    def _error(self, build: MeasuredBuild) -> float:
        return error_at_outputs(build.outputs, self.present.outputs)


def _no_regions(
    npu: NpuOptions, present: MeasuredBuild, status: Status, fault: Failure, said: str
) -> LayerAlternative:
    """Return a row with the reason why no region was measured."""
    return LayerAlternative(
        name=npu.accelerator,
        anchor="-",
        sources=(),
        how=f"--npu {npu.accelerator}",
        status=status,
        failure=fault,
        note=said,
        now=present.cost,
    )


def _failed(alternative: Alternative, error: Exception) -> Alternative:
    fault, said = told(error)
    return alternative.model_copy(update={"status": "failed", "failure": fault, "note": said})


def _is_worth_building(alternative: Alternative) -> bool:
    return alternative.predicted is None or 1 - alternative.predicted <= WORTH_BUILDING


def _promise(predicted: _Predicted) -> tuple[bool, float]:
    """Return a sort key: the maximum predicted gain first, and int8 alternatives last.

    So the budget goes to the most promising ones. int8 takes the longest to build, and exceeds the largest error most
    often.
    """
    alternative, _ = predicted
    gain = math.inf if alternative.predicted is None else alternative.predicted
    return "quantize" in alternative.options, -gain


def _helps(alternative: Alternative) -> bool:
    return alternative.status == "measured" and not alternative.note


def _saved_most(advice: Advice) -> float:
    """Return a sort key: advice with the maximum savings first."""
    return -(advice.gain if advice.gain is not None else advice.estimated or 0.0)


def _declined(finding: AdviceFinding, reason: str, failure: Failure = "") -> Declined:
    return Declined(rule=finding.rule, sources=finding.sources, reason=reason, failure=failure)
