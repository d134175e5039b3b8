# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.run`: a package on a board, its numbers checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.board.model import LoadedModel
from arm_ext.distance import Distance, distance
from arm_ext.errors import UsageError
from arm_ext.frontends.imported import TensorSpec
from arm_ext.npu_status import NpuStatus
from arm_ext.npz import read_npz
from arm_ext.package import AnyPackage, Package, Selftest, package_of
from arm_ext.quant.accuracy import warnings
from arm_ext.running import fitting, inputs_of, on_board, returned_by_step
from arm_ext.stepper import run_steps

Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class OutputCheck:
    """One output against the self-test.

    Attributes:
        name: The output.
        type: Its element type and shape.
        expected: Distance to our own numbers, computed where the package was compiled.
        source: Distance to the source's runtime, None where that could not run the model.
        float_model: Distance to the float model's, None where `compile` did not quantise it.
        bound: Largest `expected.relative` that passes; None where only equality does.
    """

    name: str
    type: str
    expected: Distance
    source: Distance | None
    float_model: Distance | None
    bound: float | None

    @property
    def passed(self) -> bool:
        """Whether the output is as close to `expected` as it must be."""
        return self.expected.exact if self.bound is None else self.expected.relative <= self.bound


@dataclass(frozen=True)
class RunResult:
    """What a run gave.

    Attributes:
        outputs: By name.
        npu: Where NPU regions ran, if the package has some.
        checks: Of each output, where the self-test was asked for.
        source_runtime: What computed the source's outputs in the self-test.
        warnings: With `checks`, what `compile` warned of when it quantised the model.
    """

    outputs: dict[str, npt.NDArray[Any]]
    npu: NpuStatus | None = None
    checks: tuple[OutputCheck, ...] = ()
    source_runtime: str = ""
    warnings: tuple[str, ...] = ()


def run(
    package: AnyPackage,
    board: str = "virtual",
    *,
    inputs: Mapping[str, npt.NDArray[Any]] | None = None,
    check: bool = False,
    steps: int | None = None,
) -> RunResult:
    """Run a package once, or step by step.

    Args:
        package: Folder, opened package, or what `compile` returned.
        board: Such as "virtual", "local", "host:port" or "tracker-host:port/key".
        inputs: Input name → value; those left out come from the self-test. Their shapes choose the bucket.
        check: Run on the self-test's inputs and compare with its outputs; of each bucket, where there are several.
        steps: How many steps of a package with states to run, from its first on. A value with an axis of as many in
            front has one for each step; outputs have that axis.

    Raises:
        UsageError: No such package or input; a value of another shape or dtype; steps of a package without states.
        EnvError: The board is out of reach, lacks a feature that the package needs, or fails.
    """
    pkg = package_of(package)
    if check and inputs:
        raise UsageError("--check runs on the self-test's own inputs; leave --input out")
    if check and steps is not None:
        raise UsageError("--check also compares steps, as many as the self-test has; leave --steps out")
    if steps is not None:
        return RunResult(*run_steps(pkg, board, steps, inputs or {}))
    views = pkg.views() if check else (fitting(pkg, inputs or {}),)
    tests = [view.selftest() for view in views]
    batches = [inputs_of(view, test.inputs, inputs or {}) for view, test in zip(views, tests, strict=True)]

    def compute(model: LoadedModel) -> list[tuple[Arrays, list[Arrays]]]:
        return [
            (model.run(values), _stepped(model, view, test) if check else [])
            for view, test, values in zip(views, tests, batches, strict=True)
        ]

    results, npu = on_board(pkg, board, compute)
    named: dict[str, npt.NDArray[Any]] = {}
    checks: list[OutputCheck] = []
    for view, test, (outputs, stepped) in zip(views, tests, results, strict=True):
        of = f" of {view.describe_inputs()}" if len(views) > 1 else ""
        names = (f"{tensor.name}{of}" for tensor in view.manifest.outputs)
        own = list(zip(names, outputs, strict=True))
        named |= dict(own)
        checks += [*_check(view, test, own), *_check_steps(view, test, stepped)] if check else []
    told = _warnings(pkg) if check else ()
    return RunResult(named, npu, tuple(checks), tests[0].source_runtime, told)


def _warnings(package: Package) -> tuple[str, ...]:
    names = [tensor.name for tensor in package.manifest.inputs]
    inputs = dict(zip(names, package.selftest().inputs, strict=False))
    return tuple(warnings(package.manifest.model.calibration, inputs))


def _check(
    package: Package, selftest: Selftest, outputs: Sequence[tuple[str, npt.NDArray[Any]]]
) -> tuple[OutputCheck, ...]:
    nothing: list[npt.NDArray[Any] | None] = [None] * len(selftest.expected)
    references = zip(selftest.expected, selftest.source or nothing, selftest.floats or nothing, strict=True)
    return tuple(
        _compared(package, name, value, *of_output)
        for (name, value), of_output in zip(outputs, references, strict=True)
    )


def _stepped(model: LoadedModel, package: Package, selftest: Selftest) -> list[Arrays]:
    """What the steps of the self-test give, and after a reset the first one of them again."""
    inputs = selftest.inputs[: len(selftest.inputs) - len(package.manifest.states)]
    steps = [model.step(inputs) for _ in selftest.steps]
    if steps:
        model.reset()
        steps.append(model.step(inputs))
        model.reset()  # for the next of a package's shapes
    return steps


def _check_steps(package: Package, selftest: Selftest, steps: Sequence[Arrays]) -> tuple[OutputCheck, ...]:
    """One check an output, of all steps together."""
    what, expected = f"of {len(selftest.steps)} steps, reset, 1 step", [*selftest.steps, *selftest.steps[:1]]
    return tuple(
        _compared(
            package, f"{name} {what}", *(np.stack([step[k] for step in of]) for of in (steps, expected))
        )
        for k, name in enumerate(returned_by_step(package))
        if steps
    )


def _compared(
    package: Package,
    name: str,
    value: npt.NDArray[Any],
    expected: npt.NDArray[Any],
    source: npt.NDArray[Any] | None = None,
    float_model: npt.NDArray[Any] | None = None,
) -> OutputCheck:
    return OutputCheck(
        name=name,
        type=f"{value.dtype}{list(value.shape)}",
        expected=distance(value, expected),
        source=None if source is None else distance(value, source),
        float_model=None if float_model is None else distance(value, float_model),
        bound=package.manifest.check.relative_bound if value.dtype.kind == "f" else None,
    )


def run_many(
    package: Package, board: str, batches: Sequence[Sequence[npt.NDArray[Any]]]
) -> list[list[npt.NDArray[Any]]]:
    """Run a package on several sets of inputs, each in the model's order."""
    return on_board(package, board, lambda model: [model.run(values) for values in batches])[0]


def accuracy(package: Package, board: str, labelled: Path) -> tuple[int, int]:
    """Classify labelled inputs and return how many were right, and how many there were.

    Args:
        package: A classifier with one input and one output.
        board: Where to run it.
        labelled: .npz with `inputs` (one more axis in front than the model's input, or as many with a batch of 1
            in the model) and integer `labels`.
    """
    spec = _single_input(package)
    arrays = read_npz(labelled, "arrays 'inputs' and 'labels'")
    if missing := [name for name in ("inputs", "labels") if name not in arrays]:
        raise UsageError(f"{labelled}: has no array '{missing[0]}', but {', '.join(arrays) or 'none at all'}")
    inputs, labels = arrays["inputs"], arrays["labels"]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(
            f"{labelled}: labels are {labels.dtype}{list(labels.shape)}; expected a list of integers"
        )
    if not inputs.ndim or not len(labels) or len(inputs) != len(labels):
        count = len(inputs) if inputs.ndim else 0
        raise UsageError(
            f"{labelled}: {count} inputs with {len(labels)} labels; expected as many, and one at least"
        )
    samples = (
        [sample.reshape(spec.shape) for sample in inputs]
        if inputs[0].size == np.prod(spec.shape)
        else list(inputs)
    )
    for sample in samples[:1]:
        if fault := spec.check(sample):
            raise UsageError(f"{labelled}: {fault}")
    results = run_many(package, board, [[sample] for sample in samples])
    right = sum(int(outputs[0].argmax() == label) for outputs, label in zip(results, labels, strict=True))
    return right, len(labels)


def _single_input(package: Package) -> TensorSpec:
    if len(package.manifest.inputs) != 1:
        raise UsageError(
            f"--accuracy takes a model with one input; this one has {len(package.manifest.inputs)}"
        )
    return package.manifest.inputs[0].spec()
