# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.run`: runs a package on a board and checks its outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from arm_ext.api.arguments import check_type
from arm_ext.api.run_library import named_outputs, npu_status, outputs_of_steps, run_on_bare, selftest_of
from arm_ext.board import open_board
from arm_ext.board.foreign import warn_of_foreign
from arm_ext.board.model import LoadedModel
from arm_ext.common.distance import Distance, distance, says_nothing
from arm_ext.common.errors import UsageError
from arm_ext.common.npu_status import NpuStatus
from arm_ext.common.npz import read_npz
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.package import AnyPackage, Package, Selftest, package_of
from arm_ext.quantization.accuracy import warnings

_T = TypeVar("_T")


def on_board(
    package: Package,
    board: str,
    compute: Callable[[LoadedModel], _T],
    threads: int | None = None,
    *,
    counting: bool = False,
) -> tuple[_T, NpuStatus | None]:
    """Load a package on a board; return the result of `compute`, and where NPU regions ran.

    Raises:
        UsageError: Threads are given for a board that has its own number of them.
        EnvError: The board is out of reach, lacks a feature that the package needs, or fails.
    """
    manifest = package.manifest
    target = manifest.target
    cpu = target.qemu_cpu
    with open_board(
        board, profile=target.profile, profile_cpu=cpu, counting=counting, threads=threads
    ) as opened:
        opened.require(target.features, so=package.so)
        warn_of_foreign(package.path, manifest.so_sha256, opened)
        model = opened.load(package.so, package.manifest.so_sha256)
        return compute(model), model.npu_status() if package.has_npu_regions else None


def fitting(package: Package, given: Mapping[str, npt.NDArray[Any]]) -> Package:
    """Return the package's first bucket whose shapes the values match; the package itself if it has no buckets.

    Raises:
        UsageError: The package has several buckets, and none fits.
    """
    for view in package.views():
        specs = [tensor.spec() for tensor in view.manifest.inputs]
        if not any(spec.check(given[spec.name]) for spec in specs if spec.name in given):
            return view
    shapes = [view.describe_inputs() for view in package.views()]
    if len(shapes) > 1:
        given_shapes = ", ".join(f"{name} {value.dtype}{list(value.shape)}" for name, value in given.items())
        raise UsageError(f"--input: {given_shapes} fits none of the package's shapes: {'; '.join(shapes)}")
    return package


def inputs_of(
    package: Package, defaults: Sequence[npt.NDArray[Any]], given: Mapping[str, npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """Return all inputs in the model's order: the given values, and the defaults for the other inputs.

    Raises:
        UsageError: A value is of no input, or of another shape or dtype.
    """
    specs = [tensor.spec() for tensor in package.manifest.inputs]
    unknown = sorted(set(given) - {spec.name for spec in specs})
    if unknown:
        names = ", ".join(spec.describe() for spec in specs)
        raise UsageError(f"--input names no input: {', '.join(unknown)}. The inputs are: {names}")
    for spec in specs:
        if spec.name in given and (fault := spec.check(given[spec.name])):
            raise UsageError(f"--input {spec.name}: {fault}")
    return [given.get(spec.name, default) for spec, default in zip(specs, defaults, strict=True)]


def returned_by_step(package: Package) -> list[str]:
    """Return the names of the outputs of `step`: those that are not states, or all if every output is a state."""
    return [tensor.name for tensor in outputs_of_steps(package)]


Array = npt.NDArray[Any]


def run_steps(
    package: Package, board: str, count: int, given: Mapping[str, Array], threads: int | None = None
) -> tuple[dict[str, Array], NpuStatus | None]:
    """Run the first steps of a package.

    Args:
        package: A package whose model has states.
        board: As for `run`.
        count: Number of steps.
        given: Input name → value of every step, or one a step along an axis in front; those left out come from the
            self-test.
        threads: As for `run`.

    Returns:
        What the steps return by name, along an axis in front; and where NPU regions ran.

    Raises:
        UsageError: The package has no states; a value is of a state, of no input, or of another shape or dtype.
    """
    states = [state.input for state in package.manifest.states]
    if not states:
        raise UsageError(
            f"{package.path}: has no state, so it has no steps; compile --state IN=OUT makes an output the "
            "next value of an input"
        )
    if kept := [name for name in given if name in states]:
        raise UsageError(
            f"--input {kept[0]}: is a state, which the package keeps from step to step; its initial value is set of "
            "--state-init of compile"
        )
    ranks = {tensor.name: len(tensor.shape) for tensor in package.manifest.inputs}
    batches = [
        _inputs(package, {name: _at(name, value, ranks, step, count) for name, value in given.items()})
        for step in range(count)
    ]
    results, npu = on_board(package, board, lambda model: [model.step(values) for values in batches], threads)
    return {
        name: np.stack([result[k] for result in results]) for k, name in enumerate(returned_by_step(package))
    }, npu


def _at(name: str, value: Array, ranks: Mapping[str, int], step: int, count: int) -> Array:
    """Return the value of an input for one step: the step's own, or the same for all steps."""
    if value.ndim != ranks.get(name, value.ndim) + 1:
        return value
    if len(value) != count:
        raise UsageError(f"--input {name}: has values of {len(value)} steps, but --steps is {count}")
    return np.asarray(value[step])


def _inputs(package: Package, given: Mapping[str, Array]) -> Sequence[Array]:
    view = fitting(package, given)
    return inputs_of(view, view.selftest().inputs, given)[: -len(package.manifest.states)]


Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class OutputCheck:
    """Comparison of one output with the self-test.

    Attributes:
        name: Name of the output.
        type: Element type and shape of the output.
        expected: Distance to our own numbers, computed where the package was compiled.
        source: Distance to the source's runtime, None where that could not run the model.
        float_model: Distance to the float model's, None where `compile` did not quantise it.
        bound: Largest `expected.relative` that passes; None of integers.
        differing: Largest share of integers that may differ from `expected`.
        says_nothing: Why the comparison tells of no error, such as "all NaN"; "" where it does.
    """

    name: str
    type: str
    expected: Distance
    source: Distance | None
    float_model: Distance | None
    bound: float | None
    says_nothing: str = ""
    differing: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the output is as close to `expected` as it must be."""
        if self.bound is None:
            return self.expected.exact or self.expected.differing <= self.differing
        return self.expected.relative <= self.bound


@dataclass(frozen=True)
class RunResult:
    """The outputs of a run, with their checks.

    Attributes:
        outputs: Name → output.
        npu: Where each NPU region ran; None for a package without regions.
        checks: Checks of each output, where the self-test was asked for.
        source_runtime: Runtime that computed the source's outputs in the self-test.
        warnings: What `compile` warned of when it quantised the model; given together with `checks`.
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
    threads: int | None = None,
) -> RunResult:
    """Run a package once, or step by step.

    Args:
        package: Folder, opened package, or what `compile` returned.
        board: Board to run on, such as "virtual", "local", "ssh://user@host" or "host:port".
        inputs: Input name → value; those left out come from the self-test. Their shapes choose the bucket.
        check: Run on the self-test's inputs and compare with its outputs; of each bucket, where there are several.
        steps: How many steps of a package with states to run, from its first on. A value with an axis of as many in
            front has one for each step; outputs have that axis.
        threads: Threads of the runtime, by default its own choice, on a board whose server is started here; results are
            the same on any number.

    Raises:
        UsageError: No such package or input; a value of another shape or dtype; steps of a package without states.
        EnvError: The board is out of reach, lacks a feature that the package needs, or fails.
    """
    pkg = package_of(package, bare=True)
    check_type("inputs", {} if inputs is None else inputs, Mapping)
    for name, value in (inputs or {}).items():
        check_type(f"inputs[{name!r}]", value, np.ndarray)
    if pkg.manifest.library is not None:
        return _run_library(pkg, board, inputs or {}, check, steps)
    if check and inputs:
        raise UsageError("--check runs on the self-test's own inputs; leave --input out")
    if check and steps is not None:
        raise UsageError("--check also compares steps, as many as the self-test has; leave --steps out")
    if steps is not None:
        return RunResult(*run_steps(pkg, board, steps, inputs or {}, threads))
    views = pkg.views() if check else (fitting(pkg, inputs or {}),)
    tests = [view.selftest() for view in views]
    batches = [inputs_of(view, test.inputs, inputs or {}) for view, test in zip(views, tests, strict=True)]

    def compute(model: LoadedModel) -> list[tuple[Arrays, list[Arrays]]]:
        return [
            (model.run(values), stepped_outputs(model, view, test) if check else [])
            for view, test, values in zip(views, tests, batches, strict=True)
        ]

    results, npu = on_board(pkg, board, compute, threads)
    named: dict[str, npt.NDArray[Any]] = {}
    checks: list[OutputCheck] = []
    for view, test, (outputs, stepped) in zip(views, tests, results, strict=True):
        of = f" of {view.describe_inputs()}" if len(views) > 1 else ""
        names = (f"{tensor.name}{of}" for tensor in view.manifest.outputs)
        own = list(zip(names, outputs, strict=True))
        named |= dict(own)
        checks += [*checked(view, test, own), *checked_steps(view, test, stepped)] if check else []
    told = _warnings(pkg) if check else ()
    return RunResult(named, npu, tuple(checks), tests[0].source_runtime, told)


def _run_library(
    library: Package, board: str, inputs: Mapping[str, Array], check: bool, steps: int | None
) -> RunResult:
    """Run a C library for a Cortex-M on its emulated board."""
    if steps is not None:
        raise UsageError(
            "--steps runs packages; a C library's steps are run by --check, as many as the self-test has"
        )
    test = selftest_of(library)
    result = run_on_bare(library, board, [inputs_of(library, test.inputs, inputs)])
    named = dict(named_outputs(library, result.outputs[0]))
    npu = npu_status(library, result)
    if not check:
        return RunResult(named, npu)
    checks = checked(library, test, list(named.items()))
    if test.steps:
        own = test.inputs[: len(test.inputs) - len(library.manifest.states)]
        stepped = run_on_bare(library, board, [own] * len(test.steps), steps=True).outputs
        checks += checked_steps(library, test, [*stepped, stepped[0]])
    return RunResult(named, npu, checks)


def _warnings(package: Package) -> tuple[str, ...]:
    names = [tensor.name for tensor in package.manifest.inputs]
    inputs = dict(zip(names, package.selftest().inputs, strict=False))
    return tuple(warnings(package.manifest.model.calibration, inputs))


def checked(
    package: Package, selftest: Selftest, outputs: Sequence[tuple[str, npt.NDArray[Any]]]
) -> tuple[OutputCheck, ...]:
    """Compare outputs, by name, with the self-test."""
    nothing: list[npt.NDArray[Any] | None] = [None] * len(selftest.expected)
    references = zip(selftest.expected, selftest.source or nothing, selftest.floats or nothing, strict=True)
    return tuple(
        compared(package, name, value, *of_output)
        for (name, value), of_output in zip(outputs, references, strict=True)
    )


def stepped_outputs(model: LoadedModel, package: Package, selftest: Selftest) -> list[Arrays]:
    """Return the outputs of the self-test's steps, then those of the first step again after a reset."""
    inputs = selftest.inputs[: len(selftest.inputs) - len(package.manifest.states)]
    steps = [model.step(inputs) for _ in selftest.steps]
    if steps:
        model.reset()
        steps.append(model.step(inputs))
        model.reset()  # so that the next bucket starts from the initial states
    return steps


def checked_steps(package: Package, selftest: Selftest, steps: Sequence[Arrays]) -> tuple[OutputCheck, ...]:
    """Compare each output of `step` with the self-test, with all steps stacked in one array."""
    what, expected = f"of {len(selftest.steps)} steps, reset, 1 step", [*selftest.steps, *selftest.steps[:1]]
    return tuple(
        compared(package, f"{name} {what}", *(np.stack([step[k] for step in of]) for of in (steps, expected)))
        for k, name in enumerate(returned_by_step(package))
        if steps
    )


def compared(
    package: Package,
    name: str,
    value: npt.NDArray[Any],
    expected: npt.NDArray[Any],
    source: npt.NDArray[Any] | None = None,
    float_model: npt.NDArray[Any] | None = None,
) -> OutputCheck:
    """Compare an output with a value that is expected of it, by the bounds of its package."""
    return OutputCheck(
        name=name,
        type=f"{value.dtype}{list(value.shape)}",
        expected=distance(value, expected),
        source=None if source is None else distance(value, source),
        float_model=None if float_model is None else distance(value, float_model),
        says_nothing=says_nothing(expected),
        bound=package.manifest.check.relative_bound if value.dtype.kind == "f" else None,
        differing=0.0 if value.dtype.kind == "f" else package.manifest.check.differing,
    )


def run_many(
    package: Package, board: str, batches: Sequence[Sequence[npt.NDArray[Any]]]
) -> list[list[npt.NDArray[Any]]]:
    """Run a package on several sets of inputs, each in the model's order."""
    return on_board(package, board, lambda model: [model.run(values) for values in batches])[0]


def accuracy(package: Package, board: str, labelled: Path) -> tuple[int, int]:
    """Classify labelled inputs; return the number of correct results, and the number of inputs.

    Args:
        package: A classifier with one input and one output.
        board: Board to run on, as for `run`.
        labelled: .npz with `inputs` (one more axis in front than the model's input, or as many with a batch of 1
            in the model) and integer `labels`.
    """
    spec = _single_input(package)
    arrays = read_npz(labelled, "arrays 'inputs' and 'labels'")
    if missing := [name for name in ("inputs", "labels") if name not in arrays]:
        raise UsageError(
            f"{labelled}: has no array '{missing[0]}'; its arrays: {', '.join(arrays) or 'none'}"
        )
    inputs, labels = arrays["inputs"], arrays["labels"]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(
            f"{labelled}: labels are {labels.dtype}{list(labels.shape)}; expected a list of integers"
        )
    if not inputs.ndim or not len(labels) or len(inputs) != len(labels):
        count = len(inputs) if inputs.ndim else 0
        raise UsageError(
            f"{labelled}: {count} inputs and {len(labels)} labels; expected equal numbers, at least one"
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
            f"--accuracy needs a model with one input; this one has {len(package.manifest.inputs)}"
        )
    return package.manifest.inputs[0].spec()
