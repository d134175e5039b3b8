# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.advise`: options and model changes that would make a model faster, built and measured."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from arm_ext.api.arguments import check_type
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.estimated_calls import estimated_calls
from arm_ext.api.plugins import with_plugins
from arm_ext.api.profile import profile
from arm_ext.api.run import run
from arm_ext.common.distance import distance
from arm_ext.common.errors import UsageError
from arm_ext.common.scratch import temporary
from arm_ext.frontends.load import is_onnx
from arm_ext.frontends.onnx.importer import read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.package import Package
from arm_ext.package.manifest import Method
from arm_ext.quantization.samples import read_calibration, split_samples
from arm_ext.report.advice.alternatives import WITHOUT_KERNEL, alternatives, exclude, is_part, united
from arm_ext.report.advice.failure import Failure, told
from arm_ext.report.advice.prediction import predicted_gain
from arm_ext.report.advice.record import Advice, AdviceReport, Alternative, CostlyCall, Declined
from arm_ext.report.advice.rules import LEAST_GAIN, Finding, Subject, findings
from arm_ext.report.calls import CallRow
from arm_ext.report.profile.record import ProfiledCall, ProfileReport
from arm_ext.report.report import CompileReport
from arm_ext.shapes.given import Given, dims_text
from arm_ext.target.profiles import resolve
from arm_ext.tune.database import Database

STEPS = ("the model as it is", "alternatives", "all together", "changes of the model")
"""Steps of `advise`, for a progress display."""

MAX_ERROR = 0.05
"""Default error limit of recommended options: the largest difference at an output, relative to the largest |output|."""

# Less is no gain: times have a spread.
_LEAST_GAIN_OF_COUNTS, _LEAST_GAIN_OF_TIMES = 0.005, 0.03
_COSTLIEST = 5
_MINUTE = 60
_SPENT = "the budget was used up"
_ARGUMENTS = {WITHOUT_KERNEL: "without"}  # names of options that are other ones in Python

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class _Build:
    """Measurements of one build, whose package has been deleted.

    Attributes:
        report: The compiler's report on it.
        profile: Profile of one inference.
        outputs: Outputs for the inputs that all builds are compared on.
    """

    report: CompileReport
    profile: ProfileReport
    outputs: Arrays

    @property
    def cost(self) -> float:
        """Cost of one inference in cycles or microseconds."""
        return float(self.profile.cycles_with_caches or self.profile.median_us or 0)


@dataclass(frozen=True)
class _Bench:
    """Settings and measurements that all builds have in common.

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

    def measure(self, options: Mapping[str, Any], model: onnx.ModelProto | None = None) -> _Build:
        """Compile a model with options of `compile`, by their names on the command line, and measure the package."""
        source = self.model if model is None else model
        with temporary() as folder:
            result = compile_model(source, self.target, folder / "model.armpkg", **self._all(options))
            measured = profile(result, self.board)
            outputs = run(result, self.board, inputs=self._inputs(result.package)).outputs
        return _Build(result.report, measured, outputs)

    def calls(self, options: Mapping[str, Any]) -> tuple[CallRow, ...]:
        """Return the kernel calls that the package would have, without building it."""
        return estimated_calls(self.model, self.target, **self._all(options))

    def _all(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `compile` for options, and those that all builds have."""
        return {**self.options, **{_ARGUMENTS.get(name, name): value for name, value in options.items()}}

    def _inputs(self, package: Package) -> Arrays:
        if self.samples is None:
            return {}
        specs = [tensor.spec() for tensor in package.manifest.inputs]
        return split_samples(self.samples, specs)[0]

    def given(self) -> dict[str, Any]:
        """Return the options that the caller gave, by their names on the command line."""
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


@with_plugins
def advise(
    model: str | Path,
    target: str = "arm",
    board: str = "virtual",
    *,
    trust: bool = False,
    plugins: Sequence[str | Path] = (),
    values: Mapping[str, npt.ArrayLike] | None = None,
    mattr: str | None = None,
    shapes: Given | None = None,
    preprocess: str | Path | None = None,
    quantize: str | Path | None = None,
    calibration: Method = "minmax",
    tuned: str | Path | None = None,
    max_error: float = MAX_ERROR,
    budget: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> AdviceReport:
    """Measure a model as it is, with other options of `compile`, and with changes of the model that could be faster.

    An alternative that cannot be built or measured has the error in its row; the others are measured.

    Args:
        model: A file of any format that `compile` takes.
        target: Name of a profile.
        board: Board to measure on, such as "virtual", "local", "host:port" or "tracker-host:port/key".
        trust: As for `compile`.
        plugins: As for `compile`.
        values: As for `compile`.
        mattr: As for `compile`.
        shapes: As for `compile`, one for each input.
        preprocess: A YAML file, as for `compile`.
        quantize: Calibration samples, to try int8. Outputs are compared on the first sample, unless preprocessing steps
            change the model's inputs.
        calibration: As for `compile`.
        tuned: A tuning database to try.
        max_error: Largest error at the outputs that recommended options may have.
        budget: Minutes after which nothing more is built.
        progress: Called with each of STEPS as it begins.

    Raises:
        UsageError: An argument is invalid, or the model is no file.
        ModelError: The unchanged model cannot be compiled.
        EnvError: The board cannot be reached at the start, or llvm-mca is missing.
    """
    check_type("board", board, str)
    if not Path(model).is_file():
        raise UsageError(f"{model}: no such model file; advise builds it anew, so that it takes no package")
    features = resolve(target, mattr).features
    samples = None if quantize is None else read_calibration(Path(quantize))
    bench = _Bench(
        Path(model),
        target,
        board,
        {
            "trust": trust,
            "plugins": tuple(plugins),
            "values": values,
            "mattr": mattr,
            "shapes": shapes,
            "preprocess": preprocess,
        },
        samples if preprocess is None else None,
        math.inf if budget is None else monotonic() + budget * _MINUTE,
    )
    if tuned is not None:
        Database(tuned)  # one that is not there is refused before the work
    progress(STEPS[0])
    present = bench.measure({})
    advisor = _Advisor(bench, present, max_error)
    progress(STEPS[1])
    int8 = None if quantize is None else _int8(quantize, calibration)
    records = None if tuned is None else {"tuned": str(tuned)}
    found = alternatives(present.profile, present.report, features, int8, records)
    predicted = [advisor.predicted(alternative) for alternative in found]
    tried = [advisor.tried(each) for each in sorted(predicted, key=_promise)]
    progress(STEPS[2])
    together = advisor.together(tried)
    progress(STEPS[3])
    return advisor.report(tried, together, advisor.changes())


def _numbers(given: npt.ArrayLike) -> str:
    """The numbers of --value, as a command line has them."""
    return ",".join(json.dumps(number) for number in np.ravel(given).tolist())


def _int8(samples: str | Path, calibration: Method) -> dict[str, str]:
    other = {} if calibration == "minmax" else {"calibration": calibration}
    return {"quantize": str(samples), **other}


@dataclass(frozen=True)
class _Advisor:
    """Measures what could be faster against the present build."""

    bench: _Bench
    present: _Build
    max_error: float

    def report(
        self,
        tried: Sequence[Alternative],
        together: Alternative | None,
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
            recommended=options,
            gain=(together and together.gain) or 0.0,
            error=(together and together.error) or 0.0,
            advice=tuple(each for each in changes if isinstance(each, Advice)),
            declined=tuple(each for each in changes if isinstance(each, Declined)),
            note=measured.note,
        )

    def predicted(self, alternative: Alternative) -> Alternative:
        """Return an alternative with the gain that the estimates of its kernels promise, or why there are none."""
        if self.bench.spent:
            return alternative
        try:
            calls = self.bench.calls(alternative.options)
        except Exception as error:
            return _failed(alternative, error)
        gain = predicted_gain(self.present.profile, self.present.report.calls, calls)
        return alternative.model_copy(update={"predicted": gain})

    def tried(self, alternative: Alternative) -> Alternative:
        """Return an alternative as it was measured, or why it was not."""
        if alternative.status == "failed":
            return alternative
        if self.bench.spent:
            return alternative.model_copy(update={"note": _SPENT})
        try:
            build = self.bench.measure(alternative.options)
        except Exception as error:
            return _failed(alternative, error)
        gain, at_outputs = self._gain(build), self._error(build)
        note = ""
        if gain < self._least_gain:
            note = "no gain" if gain > -self._least_gain else "slower"
        elif not at_outputs <= self.max_error:
            note = f"error above {self.max_error:g}"
        found = {
            "status": "measured",
            "cost": build.cost,
            "gain": gain,
            "error": at_outputs,
            "note": note,
            "calls": tuple(_cost_of(call.anchor, build.profile) for call in self._costly),
        }
        return alternative.model_copy(update=found)

    def together(self, tried: Sequence[Alternative]) -> Alternative | None:
        """Return the best options that can stand beside each other, measured together; None if none is faster."""
        good = [each for each in tried if _helps(each)]
        best: Alternative | None = None
        for other in sorted(good, key=lambda each: -(each.gain or 0.0)):
            if best is None:
                best = other
            elif not exclude(best.options, other.options):
                options = united(best.options, other.options)
                both = self.tried(other.model_copy(update={"options": options}))
                if _helps(both) and (both.gain or 0.0) > (best.gain or 0.0):
                    best = both
        return best

    def changes(self) -> list[Advice | Declined]:
        """Return changes of the model that gain, and those that do not; measured if a rule can make the change."""
        subject = Subject(self.present.profile, self.present.report, _onnx(self.bench.model))
        return [self._change(finding) for finding in findings(subject)]

    def _change(self, finding: Finding) -> Advice | Declined:
        gain = at_outputs = None
        if finding.change is not None:
            if self.bench.spent:
                return _declined(finding, _SPENT)
            try:
                build = self.bench.measure({}, finding.change)
            except Exception as error:
                fault, said = told(error)
                return _declined(finding, said, fault)
            gain, at_outputs = self._gain(build), self._error(build)
            if gain < max(LEAST_GAIN, self._least_gain):
                change = f"costs {-100 * gain:.1f} % more" if gain < 0 else f"saves {100 * gain:.1f} %"
                return _declined(finding, f"{finding.evidence}; built and measured, it {change}")
        return Advice(
            rule=finding.rule,
            sources=finding.sources,
            evidence=finding.evidence,
            at_most=finding.share,
            gain=gain,
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
                cost=_cost_of(anchor, measured) or 0.0,
                share=sum(call.share for call in calls),
                bound=calls[0].counts.bound if calls[0].counts else None,
                alternatives=calls[0].alternatives,
            )
            for anchor, calls in of_anchor.items()
        ]
        return tuple(sorted(found, key=lambda call: -call.share)[:_COSTLIEST])

    def _gain(self, build: _Build) -> float:
        return 1 - build.cost / self.present.cost

    def _error(self, build: _Build) -> float:
        """The largest error at an output: relative to its largest value, or of integers the share that differs."""
        errors = [0.0]
        for name, reference in self.present.outputs.items():
            found = distance(build.outputs[name], reference)
            errors.append(found.relative if reference.dtype.kind == "f" else found.differing)
        return max(errors)


def _cost_of(anchor: str, measured: ProfileReport) -> float | None:
    calls = [call for call in measured.calls if call.anchor == anchor]
    costs = [
        float(call.counts.cycles_with_caches if call.counts else call.times.median_us if call.times else 0)
        for call in calls
    ]
    return sum(costs) if calls else None


def _failed(alternative: Alternative, error: Exception) -> Alternative:
    fault, said = told(error)
    return alternative.model_copy(update={"status": "failed", "failure": fault, "note": said})


def _promise(alternative: Alternative) -> float:
    """Sort by it what is built first, should the budget be used up: the greatest predicted gain."""
    return -math.inf if alternative.predicted is None else -alternative.predicted


def _helps(alternative: Alternative) -> bool:
    return alternative.status == "measured" and not alternative.note


def _declined(finding: Finding, reason: str, failure: Failure = "") -> Declined:
    return Declined(rule=finding.rule, sources=finding.sources, reason=reason, failure=failure)


def _onnx(path: Path) -> onnx.ModelProto | None:
    """The model with a name for each node, as reports have them; None if it is not of ONNX."""
    if not is_onnx(path):
        return None
    model, _, _ = read_onnx(path)
    name_nodes(model.graph)
    return model
